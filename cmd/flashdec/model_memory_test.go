//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Where there is no memory for the context that a model was made for, the error says
// how much it takes, which flag bounds it, and what fits: which then does.
func TestContextThatDoesNotFit(t *testing.T) {
	if mode, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err != nil || bytes.HasPrefix(mode, []byte("1")) {
		t.Skip("this system promises any amount of memory")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen2")); err != nil {
		t.Fatal(err)
	}
	const tokens = 1 << 30
	rewrite(t, filepath.Join(dir, "config.json"), `"max_position_embeddings": 512`, fmt.Sprintf(`"max_position_embeddings": %d`, tokens))
	ids := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(ids, []byte("1,2,3"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"generate", dir, "--ids=1,2", "--max-tokens=1"},
		{"logits", dir, ids, "-o", filepath.Join(t.TempDir(), "logits.npz")},
		{"perplexity", dir, ids, "--window=2"},
	} {
		refuses(t, []string{"1073741824 tokens", "(the model's context)", "412.3 GB as f16", "--max-context"}, args...)
		fits := regexp.MustCompile(`--max-context (\d+) fits`).FindStringSubmatch(call(args...).errs)
		if fits == nil {
			t.Fatalf("%s: the error names no context that fits", args)
		}
		want(t, exitDone, append(args, "--max-context="+fits[1])...)
		const tokenBytes, slack = 384, 1.1 // other processes take and give, too
		if n, _ := strconv.Atoi(fits[1]); n < 1<<10 || float64(n*tokenBytes) > slack*float64(freeMemory()) {
			t.Errorf("%s: %d tokens of %d bytes are said to fit in %d bytes", args, n, tokenBytes, freeMemory())
		}
	}
	refuses(t, []string{"1073741823 tokens", "(--max-context)"}, "generate", dir, "--ids=1,2", "--max-context=1073741823")
}

// rewrite replaces some text of a file that has it.
func rewrite(t *testing.T, path, old, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s: %v, or it has no %s", path, err, old)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(text)), 0o666); err != nil {
		t.Fatal(err)
	}
}
