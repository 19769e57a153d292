package main

import (
	"bytes"
	"os"
	"testing"
)

// TestContextBeyondTheModel: positions that a model was not made for are computed as asked, with one line about them;
// those that its rotary scaling stretches to are its own.
func TestContextBeyondTheModel(t *testing.T) {
	ids := tokensFile(t, "5 17 3")
	for _, c := range []struct {
		model, context, told string
	}{
		{"qwen2", "512", ""},
		{"qwen2", "513", "flashdec: --max-context is 513, but the model was made for 512 positions, want at most that: what it says further on means little\n"},
		{"llama3_rope", "513", "flashdec: --max-context is 513, but the model was made for 512 positions, want at most that: what it says further on means little\n"},
		{"gpt_oss", "131072", ""},
		{"gpt_oss", "131073", "flashdec: --max-context is 131073, but the model was made for 512 positions, which its rotary scaling stretches to 131072, want at most that: what it says further on means little\n"},
	} {
		for _, args := range [][]string{
			{"generate", goldenModels + c.model, "--ids=5,17,3", "--max-tokens=2"},
			{"logits", goldenModels + c.model, ids, "-o", t.TempDir() + "/logits.npz"},
			{"perplexity", goldenModels + c.model, ids},
		} {
			if told := want(t, exitDone, append(args, "--max-context="+c.context)...).errs; told != c.told {
				t.Errorf("%s of %s with a context of %s: stderr %q, want %q", args[0], c.model, c.context, told, c.told)
			}
		}
	}
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
