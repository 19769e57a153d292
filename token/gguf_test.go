package token

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func mustGGUF(t testing.TB, m map[string]any) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestIDsAreThoseOfLlamaCPP: SentencePiece's BPE; see testdata/makegguf.py.
func TestIDsAreThoseOfLlamaCPP(t *testing.T) {
	var want struct {
		Tokens, Texts  []string
		Scores         []float32
		Types          []int32
		Plain, Special [][]int
	}
	testdata(t, "spm.json", &want)
	if len(want.Texts) < 130 || len(want.Plain) != len(want.Texts) || len(want.Special) != len(want.Texts) {
		t.Fatalf("%d texts, %d and %d answers", len(want.Texts), len(want.Plain), len(want.Special))
	}
	tok := mustGGUF(t, map[string]any{
		"tokenizer.ggml.model":            "llama",
		"tokenizer.ggml.tokens":           want.Tokens,
		"tokenizer.ggml.scores":           want.Scores,
		"tokenizer.ggml.token_type":       want.Types,
		"tokenizer.ggml.bos_token_id":     uint32(1),
		"tokenizer.ggml.eos_token_id":     uint32(2),
		"tokenizer.ggml.unknown_token_id": uint32(0),
	})
	for i, text := range want.Texts {
		compareIDs(t, "Encode", text, tok.Encode, want.Plain[i])
		compareIDs(t, "EncodeSpecial", text, tok.EncodeSpecial, want.Special[i])
		if got := tok.Decode(want.Plain[i]); got != strings.ReplaceAll(text, spaceMark, " ") {
			t.Errorf("Decode of %q: %q", text, got)
		}
	}
	if got := tok.AddSpecial([]int{9}); !slices.Equal(got, []int{1, 9}) {
		t.Errorf("AddSpecial gave %v, want BOS before", got)
	}
	if got := tok.Ends(); !slices.Equal(got, []int{2}) {
		t.Errorf("ends %v, want EOS", got)
	}
}

// ggufOf is the metadata of a GGUF file with the vocabulary of a family, and
// the added tokens that GGUF can describe.
func ggufOf(t *testing.T, name, pre string) map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Model struct {
			Vocab  map[string]int
			Merges []hfMerge
		}
		AddedTokens []hfAdded `json:"added_tokens"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	n := len(f.Model.Vocab) + len(f.AddedTokens)
	tokens, types, merges := make([]string, n), make([]int32, n), make([]string, len(f.Model.Merges))
	for text, id := range f.Model.Vocab {
		tokens[id], types[id] = text, 1
	}
	for _, a := range f.AddedTokens {
		tokens[a.ID], types[a.ID] = a.Content, 4
		switch {
		case a.Special:
			types[a.ID] = 3
		case a.SingleWord || a.LStrip:
			types[a.ID] = 5
		}
	}
	for i, m := range f.Model.Merges {
		merges[i] = m[0] + " " + m[1]
	}
	return map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.bos_token_id": int32(0),
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
	}
}

// TestGGUFEqualsTokenizerJSON: the names of pre-tokenizers stand for the same
// expressions. GGUF knows no normalization.
func TestGGUFEqualsTokenizerJSON(t *testing.T) {
	var texts []string
	testdata(t, "texts.json", &texts)
	for name, pre := range map[string]string{
		"gpt2": "gpt-2", "smollm": "smollm", "llama3": "llama-bpe", "qwen2": "qwen2", "qwen35": "qwen35", "gpt4o": "gpt-4o", "tekken": "tekken",
	} {
		tok := mustGGUF(t, ggufOf(t, name, pre))
		var want answers
		testdata(t, name+".answers.json", &want)
		compared := 0
		for i, text := range texts {
			if strings.Contains(text, "word") || strings.Contains(text, "<mask>") || !norm.NFC.IsNormalString(text) {
				continue
			}
			compared++
			compareIDs(t, name+": Encode", text, tok.Encode, want.Plain[i])
			compareIDs(t, name+": EncodeSpecial", text, tok.EncodeSpecial, want.special(i))
		}
		if compared < 100 {
			t.Errorf("%s: %d texts compared", name, compared)
		}
	}
}

func TestEveryPreTokenizerBuilds(t *testing.T) {
	for name := range pretokenizers {
		tok := mustGGUF(t, ggufOf(t, "gpt2", name))
		text := "Don't cut 12345 你好, 🙂!\r\n\n  x\t"
		ids, err := tok.Encode(text)
		if got := tok.Decode(ids); err != nil || got != text {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
	}
}

func TestABOSBeforeATextIsThePreTokenizersOrTheFiles(t *testing.T) {
	for _, c := range []struct {
		pre  string
		flag any
		want []int
	}{{"gpt-2", nil, []int{9}}, {"gpt-2", true, []int{0, 9}}, {"llama-bpe", nil, []int{0, 9}}, {"llama-bpe", false, []int{9}}} {
		m := ggufOf(t, "gpt2", c.pre)
		if c.flag != nil {
			m["tokenizer.ggml.add_bos_token"] = c.flag
		}
		if got := mustGGUF(t, m).AddSpecial([]int{9}); !slices.Equal(got, c.want) {
			t.Errorf("%s, %v: %v, want %v", c.pre, c.flag, got, c.want)
		}
	}
}

// TestBytesWithoutATokenAreReplaced, and never by the unknown token, which in
// some files is the one that ends a text.
func TestBytesWithoutATokenAreReplaced(t *testing.T) {
	tok := mustGGUF(t, map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.unknown_token_id": uint32(0),
		"tokenizer.ggml.tokens":     []string{"<|endoftext|>", "a", "ï", "¿", "½"}, // EF BF BD, U+FFFD
		"tokenizer.ggml.token_type": []int32{3, 1, 1, 1, 1},
		"tokenizer.ggml.merges":     []string{},
	})
	ids, err := tok.Encode("a\x1da\xff")
	if want := []int{1, 2, 3, 4, 1, 2, 3, 4}; err != nil || !slices.Equal(ids, want) || tok.Decode(ids) != "a\ufffda\ufffd" {
		t.Errorf("ids %v, error %v, want %v", ids, err, want)
	}
}

// TestEndsAreSpecialWhateverTheFileSays: a user's text must not end a turn.
func TestEndsAreSpecialWhateverTheFileSays(t *testing.T) {
	m := metadata()
	m["tokenizer.ggml.token_type"] = []int32{2, 3, 4, 6, 1, 1, 1} // </s> as a token that text may spell
	m["tokenizer.ggml.unknown_token_id"] = uint32(0)
	tok := mustGGUF(t, m)
	if ids, err := tok.Encode("</s>"); err != nil || len(ids) == 0 || slices.Contains(ids, 2) {
		t.Errorf("ids %v, error %v, want none of %d", ids, err, 2)
	}
	if ids, err := tok.EncodeSpecial("</s>"); err != nil || !slices.Equal(ids, []int{2}) {
		t.Errorf("EncodeSpecial: ids %v, error %v, want 2", ids, err)
	}
}
