package token

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// answers is what Hugging Face's tokenizers says of testdata/texts.json; see
// testdata/make.py.
type answers struct {
	Plain   [][]int        // text never becomes a special token
	Special map[int][]int  // special tokens are read; by text, where that differs
	Text    map[int]string // Plain, decoded; by text, where it differs
}

func (a answers) special(i int) []int {
	if ids, differs := a.Special[i]; differs {
		return ids
	}
	return a.Plain[i]
}

func (a answers) text(i int, text string) string {
	if differs, ok := a.Text[i]; ok {
		return differs
	}
	return text
}

// families are the tokenizers of testdata.
var families = []string{
	"gemma", "gpt2", "gpt2-prefix", "gpt4o", "llama2", "llama3", "mistral", "other", "qwen2", "qwen35", "smollm", "tekken", "unigram",
}

func testdata(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

func family(t testing.TB, name string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromTokenizerJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func eachFamily(t *testing.T, f func(t *testing.T, tok *Tokenizer)) {
	for _, name := range families {
		t.Run(name, func(t *testing.T) { f(t, family(t, name)) })
	}
}

func TestEveryFamilyIsTested(t *testing.T) {
	found, err := filepath.Glob("testdata/*.tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = strings.TrimSuffix(filepath.Base(found[i]), ".tokenizer.json")
	}
	slices.Sort(found)
	if !slices.Equal(found, families) {
		t.Errorf("testdata holds %v, tested are %v", found, families)
	}
}

func TestIDsAreThoseOfHuggingFace(t *testing.T) {
	var texts []string
	testdata(t, "texts.json", &texts)
	for _, name := range families {
		t.Run(name, func(t *testing.T) {
			tok := family(t, name)
			var want answers
			testdata(t, name+".answers.json", &want)
			if len(texts) < 200 || len(want.Plain) != len(texts) || len(want.Special) == 0 || len(want.Text) == 0 {
				t.Fatalf("%d texts, %d, %d and %d answers", len(texts), len(want.Plain), len(want.Special), len(want.Text))
			}
			for i, text := range texts {
				if name == "unigram" && text == "<unk>" {
					continue // their Unigram model reads the special token in it; TestTextNeverBecomesSpecial
				}
				compareIDs(t, "Encode", text, tok.Encode, want.Plain[i])
				compareIDs(t, "EncodeSpecial", text, tok.EncodeSpecial, want.special(i))
				if got := tok.Decode(want.Plain[i]); strings.ToValidUTF8(got, "\ufffd") != want.text(i, text) {
					t.Errorf("Decode of %q: %q, want %q", text, got, want.text(i, text))
				}
			}
		})
	}
}

func compareIDs(t *testing.T, what, text string, encode func(string) ([]int, error), want []int) {
	t.Helper()
	if got, err := encode(text); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s(%q): error %v\n got %v\nwant %v", what, text, err, got, want)
	}
}
