package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

// writeTables generates the tables that dispatch looks kernels up in, by their
// number of rows.
func writeTables(dir string) error {
	var b bytes.Buffer
	b.WriteString(header + "package simd\n")
	for _, stage := range []string{"scores", "accumulate"} {
		fmt.Fprintf(&b, "\nvar %sNEON = [NumElems]blocks[%sKernel]{\n", stage, stage)
		for _, e := range elems {
			fmt.Fprintf(&b, "%s: {", e.name)
			for _, r := range rowBlocks {
				fmt.Fprintf(&b, "%d: %s%sx%dNEON, ", r, stage, e.name, r)
			}
			b.WriteString("},\n")
		}
		b.WriteString("}\n")
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tables_arm64.go"), text, 0o644)
}
