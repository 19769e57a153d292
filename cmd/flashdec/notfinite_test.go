package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/tensorfile"
)

// withoutNumbers is a golden model whose last norm has a NaN: all of its logits are NaN then.
func withoutNumbers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen2")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []tensorfile.Tensor
	for _, x := range f.Tensors {
		if x.Name == "model.norm.weight" {
			weights, err := x.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			weights[3] = float32(math.NaN())
			x = singles(x.Name, weights, x.Shape)
		}
		tensors = append(tensors, x)
	}
	changed := filepath.Join(t.TempDir(), "model.safetensors")
	if err := tensorfile.Write(changed, tensors, f.Metadata); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(changed, path); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Logits that are no numbers are written as they are, and told of; a text cannot be
// judged by them, nor continued.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	model, dir := withoutNumbers(t), t.TempDir()
	ids, out := filepath.Join(dir, "ids.txt"), filepath.Join(dir, "logits.safetensors")
	if err := os.WriteFile(ids, []byte("5,17,3"), 0o666); err != nil {
		t.Fatal(err)
	}
	const told = "flashdec: not all logits are finite numbers: the first that is not is token 0's of id 0, NaN\n"
	if r := want(t, exitDone, "logits", model, ids, "-o", out); r.errs != told {
		t.Errorf("stderr is %q, want %q", r.errs, told)
	}
	f, err := tensorfile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Tensor("logits")
	if logits, err := x.Float32s(); err != nil || len(logits) != 3*384 || logits[0] == logits[0] {
		t.Errorf("%d logits, the first %v, %v: want 3 × 384, which are NaN", len(logits), logits[:1], err)
	}
	refuses(t, []string{"window 0, token 0", "logits are not finite numbers"}, "perplexity", model, ids, "--window=3")
	refuses(t, []string{"window 0, token 0", "logits are not finite numbers"}, "perplexity", model, ids, "--window=3", "--against=f32")
	if r := call("generate", model, "--ids=5,17,3", "--max-tokens=2"); r.code != exitBadInput || !strings.Contains(r.errs, "NaN") {
		t.Errorf("generate: exit %d, %q, want %d and that logits are NaN", r.code, r.errs, exitBadInput)
	}
}
