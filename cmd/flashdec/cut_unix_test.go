//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestACutFileIsBadInput: a file is cut short while a verb uses it, at the first look at the context or later.
func TestACutFileIsBadInput(t *testing.T) {
	whole, err := os.ReadFile(realLayer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "layer.safetensors")
	for _, args := range [][]string{
		{"run", path}, {"run", path, "--page-size=16"}, {"verify", path}, {"trace", path, "--threads=3"},
	} {
		for _, looks := range []int32{1, 2, 3, 4, 5, 6} {
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx := enoughAfter(looks)
			ctx.cancel = func() {
				if err := os.Truncate(path, int64(len(whole)/4)); err != nil {
					t.Error(err)
				}
			}
			var stdout, stderr bytes.Buffer
			code := run(ctx, args, &stdout, &stderr)
			told := stdout.String() + stderr.String() // verify tells of a file in its table
			if code != exitBadInput || !strings.Contains(strings.Join(strings.Fields(told), " "), "cut short while it was in use") {
				t.Errorf("%s, cut at look %d: exit %d, told %q, want %d and that the file was cut short", args, looks, code, told, exitBadInput)
			}
			if n := strings.Count(told, path); n != 1 {
				t.Errorf("%s, cut at look %d: %q names the file %d times, want once", args, looks, told, n)
			}
		}
	}
}
