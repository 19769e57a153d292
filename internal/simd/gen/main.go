// Command gen writes the amd64 assembly of package simd, one file a level and
// stage. From this folder:
//
//	go run . ../
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	stages := map[string]func(*gen){
		"scores": scoresFile, "accumulate": accumulateFile, "softmax": softmaxFile, "nan": nanFile, "read": readFile, "scale": scaleFile, "divide": divideFile, "average": averageFile, "fetch": fetchFile, "blocks": blocksFile, "gate": gateFile, "norm": normFile, "panel": panelFile, "narrow": narrowFile, "quantise": quantiseFile,
	}
	levels := []*level{&avx512, &avx2}
	for _, l := range levels {
		if err := writeAll(dir, l, stages); err != nil {
			return err
		}
	}
	if err := write(dir, "rows", &avx2, rowsFile); err != nil {
		return err
	}
	if err := write(dir, "fixed", &avx512, fixedFile); err != nil {
		return err
	}
	if err := writeAll(dir, &vnni, map[string]func(*gen){
		"scores": scoresFile, "accumulate": accumulateFile,
		"integer_digits": integerDigitsFile, "integer_scores": integerScoresFile, "integer_keys": integerKeysFile, "integer_accumulate": integerAccumulateFile,
	}); err != nil {
		return err
	}
	if err := writeAll(dir, &halves, map[string]func(*gen){"scores": scoresFile, "cpuid": cpuidFile}); err != nil {
		return err
	}
	if err := writeAll(dir, &wide, map[string]func(*gen){"scores": scoresFile, "accumulate": accumulateFile}); err != nil {
		return err
	}
	if err := write(dir, "scores", &splitwise, scoresFile); err != nil {
		return err
	}
	if err := write(dir, "accumulate", &turnwise, turnsFile); err != nil {
		return err
	}
	if err := writeAll(dir, &dotwise, map[string]func(*gen){"accumulate": dotsFile, "round": roundFile}); err != nil {
		return err
	}
	if err := write(dir, "accumulate", &eightSums, dotsFile); err != nil {
		return err
	}
	for _, l := range []*level{&pairwise, &ordered, &eightScores} {
		if err := write(dir, "scores", l, scoresFile); err != nil {
			return err
		}
	}
	return writeTables(dir, levels)
}

// writeAll generates the stages of a level.
func writeAll(dir string, l *level, stages map[string]func(*gen)) error {
	for stage, emit := range stages {
		if err := write(dir, stage, l, emit); err != nil {
			return err
		}
	}
	return nil
}

// write generates stage_level_amd64.s and the Go declarations beside it.
func write(dir, stage string, l *level, emit func(*gen)) error {
	g := &gen{assembler: build.NewContext(), level: l}
	g.Constraint(buildtags.Term("amd64"))
	emit(g)
	file, err := g.Result()
	if err != nil {
		return fmt.Errorf("%s %s: %w", stage, l.name, err)
	}
	if err := pass.Compile.Execute(file); err != nil {
		return fmt.Errorf("%s %s: %w", stage, l.name, err)
	}
	if err := writeDots(file); err != nil {
		return fmt.Errorf("%s %s: %w", stage, l.name, err)
	}
	cfg := printer.Config{Name: "internal/simd/gen", Pkg: "simd"}
	for suffix, p := range map[string]printer.Printer{".s": printer.NewGoAsm(cfg), ".go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return fmt.Errorf("%s %s: %w", stage, l.name, err)
		}
		name := fmt.Sprintf("%s_%s_amd64%s", stage, l.name, suffix)
		if err := os.WriteFile(filepath.Join(dir, name), bytes.TrimLeft(text, "\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
