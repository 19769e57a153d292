package token

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// small makes a tokenizer from a file written out.
func small(t *testing.T, file string) *Tokenizer {
	t.Helper()
	tok, err := FromTokenizerJSON([]byte(file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return tok
}

func TestAMergeMakesNoSpecialToken(t *testing.T) {
	tok := small(t, bpeFile(`{"a": 0, "b": 1, "ab": 2}`, `["a b"]`, `, "added_tokens": [{"id": 2, "content": "ab", "special": true}]`))
	compareIDs(t, "Encode", "ab", tok.Encode, []int{0, 1})
	compareIDs(t, "EncodeSpecial", "ab", tok.EncodeSpecial, []int{2})
}

// TestAWholePieceComesBeforeItsMerges: ignore_merges, and the pre-tokenizers of
// GGUF that imply it.
func TestAWholePieceComesBeforeItsMerges(t *testing.T) {
	file := `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4}, "merges": ["b c"], "ignore_merges": %v}}`
	compareIDs(t, "ignore_merges", "abc", small(t, fmt.Sprintf(file, true)).Encode, []int{4})
	compareIDs(t, "merges", "abc", small(t, fmt.Sprintf(file, false)).Encode, []int{0, 3})
	for pre, want := range map[string][]int{"llama-bpe": {4}, "gpt-2": {0, 3}} {
		tok := mustGGUF(t, map[string]any{
			"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.bos_token_id": uint32(0),
			"tokenizer.ggml.tokens": []string{"a", "b", "c", "bc", "abc"}, "tokenizer.ggml.merges": []string{"b c"},
		})
		compareIDs(t, pre, "abc", tok.Encode, want)
	}
}

func TestUnknownCharactersFuseWhereTheFileSays(t *testing.T) {
	file := `{"model": {"type": "BPE", "vocab": {"a": 0, "?": 1}, "unk_token": "?", "fuse_unk": %v}}`
	compareIDs(t, "fused", "xya你z", small(t, fmt.Sprintf(file, true)).Encode, []int{1, 0, 1})
	compareIDs(t, "each", "xya你z", small(t, fmt.Sprintf(file, false)).Encode, []int{1, 1, 0, 1, 1})
}

// TestEqualScoresMergeFromTheLeft, whatever the ids.
func TestEqualScoresMergeFromTheLeft(t *testing.T) {
	tok := mustGGUF(t, map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.add_space_prefix": false, "tokenizer.ggml.add_bos_token": false,
		"tokenizer.ggml.tokens": []string{"bc", "a", "b", "c", "ab"}, "tokenizer.ggml.scores": []float32{-1, -5, -5, -5, -1},
	})
	compareIDs(t, "Encode", "abc", tok.Encode, []int{4, 3})
}

// TestEqualPathsAreTheOneFoundFirst: as in Hugging Face's Unigram model.
func TestEqualPathsAreTheOneFoundFirst(t *testing.T) {
	tok := small(t, `{"model": {"type": "Unigram", "vocab": [["a", -1], ["b", -1], ["ab", -2]]}}`)
	compareIDs(t, "Encode", "ab", tok.Encode, []int{2})
}

func TestAddSpecialFollowsTheTemplate(t *testing.T) {
	tok := small(t, bpeFile(`{"a": 0, "<s>": 1, "</s>": 2}`, `[]`, `, "post_processor": {"type": "TemplateProcessing",
		"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
		"special_tokens": {"<s>": {"ids": [1]}, "</s>": {"ids": [2, 2]}}}`))
	if got := tok.AddSpecial([]int{0}); !slices.Equal(got, []int{1, 0, 2, 2}) {
		t.Errorf("%v, want 1 0 2 2", got)
	}
	if bos, ok := tok.BOS(); !ok || bos != 1 {
		t.Errorf("BOS %d, %v, want 1", bos, ok)
	}
}

// TestASpecialCharacterCannotBeSaid: no guard can part it.
func TestASpecialCharacterCannotBeSaid(t *testing.T) {
	tok := small(t, bpeFile(`{"x": 0}`, `[]`, `, "added_tokens": [{"id": 1, "content": "<", "special": true}, {"id": 2, "content": "<x", "special": true}]`))
	tok.chat = "{{ messages[0].content }}"
	if ids, err := tok.EncodeChat([]Message{{"user", "x<x"}}, ChatOptions{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("ids %v, error %v, want ErrUnsupported", ids, err)
	}
	if ids, err := tok.EncodeChat([]Message{{"user", "x"}}, ChatOptions{}); err != nil || !slices.Equal(ids, []int{0}) {
		t.Errorf("without it: ids %v, error %v", ids, err)
	}
}

// TestAMergeThatHasPassedIsNotMade: a b waits at rank 1 when b c, rank 0, takes
// its b away; a bc is of rank 3, and comes after bc d of rank 2.
func TestAMergeThatHasPassedIsNotMade(t *testing.T) {
	tok := small(t, bpeFile(`{"a": 0, "b": 1, "c": 2, "d": 3, "bc": 4, "ab": 5, "bcd": 6, "abc": 7}`, `["b c", "a b", "bc d", "a bc"]`, ""))
	compareIDs(t, "Encode", "abcd", tok.Encode, []int{0, 6})
	compareIDs(t, "Encode", "abc", tok.Encode, []int{7})
	compareIDs(t, "Encode", "ab", tok.Encode, []int{5})
}
