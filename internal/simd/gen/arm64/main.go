// Command arm64 writes the NEON assembly of package simd, one file a stage. From
// the folder above:
//
//	go run ./arm64 ../
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: arm64 FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "arm64:", err)
		os.Exit(1)
	}
}

// stages are the files, by what their kernels do.
var stages = map[string]func(*file){
	"scores": scoresFile, "accumulate": accumulateFile, "softmax": softmaxFile, "read": readFile,
	"scale": scaleFile, "blocks": blocksFile,
}

func run(dir string) error {
	for stage, emit := range stages {
		f := new(file)
		emit(f)
		for suffix, text := range map[string]string{".s": f.assembly(), ".go": f.declarations()} {
			if err := os.WriteFile(filepath.Join(dir, stage+"_neon_arm64"+suffix), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return writeTables(dir)
}
