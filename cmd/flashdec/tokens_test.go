package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/tensorfile"
)

func TestParseIDs(t *testing.T) {
	for list, want := range map[string][]int{
		"5,17,3": {5, 17, 3}, "[5, 17 3]": {5, 17, 3}, " 7 ": {7}, "": nil, "[]": nil,
		"5\n17\n": {5, 17}, "5, 17": {5, 17},
	} {
		if got, err := parseIDs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q gives %v, %v, want %v", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"5,,3": "token id 1 is missing", ",5": "token id 0 is missing", "5,": "token id 1 is missing",
		"5,-3": `token id 1 is "-3"`, "[5": "does not end with ]", "4294967296": "token id 0 is",
	} {
		if _, err := parseIDs(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

// TestLogitsKeepTheirModel: an output that is a file of the model would be written
// over what is still read.
func TestLogitsKeepTheirModel(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen3")); err != nil {
		t.Fatal(err)
	}
	ids := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(ids, []byte("5,17,3"), 0o600); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "model.safetensors")
	before, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), []string{"logits", dir, ids, "-o", weights}, &stdout, &stderr)
	if code != exitBadInput || !strings.Contains(stderr.String(), "is a file of the model") {
		t.Errorf("exit %d, %s", code, &stderr)
	}
	if after, err := os.ReadFile(weights); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the weights changed (%v)", err)
	}
}

// A file of token ids has them as one list, in the vocabulary; text is bounded.
func TestTokenFilesAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, x tensorfile.Tensor) string {
		f := &testFile{map[string]tensorfile.Tensor{name: x}, nil}
		return f.write(t, filepath.Join(dir, name+".safetensors"))
	}
	square := ints("input_ids", 1, 2, 3, 4)
	square.Shape = []int{2, 2}
	long := filepath.Join(dir, "long.txt")
	if err := os.WriteFile(long, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, maxTokensFile+1); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "logits.npz")
	for path, words := range map[string][]string{
		file("ids", ints("ids", 1)):    {"no tensor input_ids of one dimension"},
		file("input_ids", square):      {"no tensor input_ids of one dimension"},
		long:                           {"more than"},
		filepath.Join(dir, "none.txt"): {"none.txt"},
	} {
		refuses(t, words, "logits", goldenModels+"qwen2", path, "-o", out)
	}
	refuses(t, []string{"F32, wanted an integer type", "input_ids"}, "logits", goldenModels+"qwen2", file("input_ids", wave("input_ids", 3)), "-o", out)
}

// speaking is a golden model that knows the letters a and b as ids 5 and 6.
func speaking(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen2")); err != nil {
		t.Fatal(err)
	}
	const letters = `{"model": {"type": "BPE", "vocab": {"a": 5, "b": 6}, "merges": []},
		"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": {"type": "ByteLevel"}}`
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(letters), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTextAndIDsAreToldApart: what a file was read as is said, and numbers that are no ids are no text for that.
func TestTextAndIDsAreToldApart(t *testing.T) {
	model, out := speaking(t), filepath.Join(t.TempDir(), "logits.npz")
	for text, c := range map[string]struct{ from, told string }{
		"abba":    {fromText, "wrote the logits of 4 tokens of text to "},
		"5, 6\n6": {fromIDs, "wrote the logits of 3 token ids to "},
	} {
		file := tokensFile(t, text)
		if told := want(t, exitDone, "logits", model, file, "-o", out).stdout; !strings.HasPrefix(told, c.told) {
			t.Errorf("%q: %q, want %q", text, told, c.told)
		}
		if line := objects(t, want(t, exitDone, "logits", model, file, "-o", out, "--json").stdout)[0]; line["read_from"] != c.from {
			t.Errorf("%q: %v, want it read from %s", text, line, c.from)
		}
		if line := objects(t, want(t, exitDone, "perplexity", model, file, "--window=4", "--json").stdout)[0]; line["read_from"] != c.from {
			t.Errorf("%q: %v, want it read from %s", text, line, c.from)
		}
		if told := want(t, exitDone, "perplexity", model, file, "--window=4").stdout; !strings.Contains(told, " in 1 window, given as "+c.from+"\n") {
			t.Errorf("%q: %q, want %s", text, told, c.from)
		}
	}
	for text, word := range map[string]string{"5 -1": `token id 1 is "-1"`, "1.5, 2": `token id 0 is "1.5"`, "[+3]": `"+3"`, "1e3": `"1e3"`, "5,\t-.5": `"-.5"`} {
		for _, verb := range [][]string{{"logits", model, tokensFile(t, text), "-o", out}, {"perplexity", model, tokensFile(t, text)}} {
			refuses(t, []string{word, "want a number from 0 on", "a file of numbers alone is read as token ids"}, verb...)
		}
	}
	for _, text := range []string{"5 - 1", "10:30", "5.", "-", "1.2.3", "2026-12-01", "0x10", "5 apples", "[,]", "Inf", "٣"} {
		if onlyNumbers(text) {
			t.Errorf("%q is read as a list of ids, want text", text)
		}
	}
}
