package token

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

const folderTokenizer = `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
	"added_tokens": [{"id": 2, "content": "<s>", "special": true}, {"id": 3, "content": "<e>", "special": true},
	{"id": 4, "content": "<|im_end|>", "special": true}]}`

func folder(files map[string]string) fs.FS {
	out := fstest.MapFS{"tokenizer.json": {Data: []byte(folderTokenizer)}}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestFolder(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		prompt []int // of "ab"
		bos    int   // −1 for none
		ends   []int
		chat   string
	}{
		"tokenizer.json alone": {nil, []int{0, 1}, -1, []int{4}, ""},
		"special tokens": {
			map[string]string{"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": {"content": "<e>"}, "add_bos_token": true, "chat_template": "T"}`},
			[]int{2, 0, 1},
			2,
			[]int{4, 3},
			"T",
		},
		"no BOS wanted": {
			map[string]string{"tokenizer_config.json": `{"bos_token": "<s>", "add_bos_token": false, "eos_token": null}`},
			[]int{0, 1},
			2,
			[]int{4},
			"",
		},
		"end ids": {
			map[string]string{"config.json": `{"eos_token_id": 3}`, "generation_config.json": `{"eos_token_id": [3, 1, 9999]}`},
			[]int{0, 1},
			-1,
			[]int{4, 3, 1},
			"",
		},
		"named templates": {
			map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": "X"}, {"name": "default", "template": "D"}, {"name": "rag", "template": "Y"}]}`},
			[]int{0, 1},
			-1,
			[]int{4},
			"D",
		},
		"a template's file comes first": {
			map[string]string{"tokenizer_config.json": `{"chat_template": "T"}`, "chat_template.jinja": "J"},
			[]int{0, 1},
			-1,
			[]int{4},
			"J",
		},
	} {
		tok, err := FromFolder(folder(c.files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ids, err := tok.Encode("ab")
		if got := tok.AddSpecial(ids); err != nil || !slices.Equal(got, c.prompt) {
			t.Errorf("%s: prompt %v, error %v, want %v", name, got, err, c.prompt)
		}
		if bos, ok := tok.BOS(); ok != (c.bos >= 0) || ok && bos != c.bos {
			t.Errorf("%s: BOS %d, %v, want %d", name, bos, ok, c.bos)
		}
		if !slices.Equal(tok.Ends(), c.ends) || tok.ChatTemplate() != c.chat {
			t.Errorf("%s: ends %v, template %q, want %v, %q", name, tok.Ends(), tok.ChatTemplate(), c.ends, c.chat)
		}
	}
}

func TestHostileFoldersAreErrors(t *testing.T) {
	if _, err := FromFolder(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: error %v, want that of the file", err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"} {
		if _, err := FromFolder(folder(map[string]string{name: "{"})); !errors.Is(err, ErrVocabulary) {
			t.Errorf("%s cut off: error %v, want ErrVocabulary", name, err)
		}
	}
	vast := string(make([]byte, maxConfig+1))
	for _, name := range []string{"config.json", "chat_template.jinja"} {
		if _, err := FromFolder(folder(map[string]string{name: vast})); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s of %d bytes: error %v, want ErrUnsupported", name, len(vast), err)
		}
	}
}

func TestKnownEnds(t *testing.T) {
	file := func(names ...string) *Tokenizer {
		added := ""
		for i, name := range names {
			added += `, {"id": ` + string(rune('1'+i)) + `, "content": "` + name + `", "special": true}`
		}
		tok, err := FromTokenizerJSON([]byte(`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [` + added[2:] + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	if tok := file("<|end|>", "<|eot_id|>", "<|x|>"); !slices.Equal(tok.Ends(), []int{2, 1}) {
		t.Errorf("ends %v, want 2 and 1", tok.Ends())
	}
	// In harmony <|end|> ends a message, and the turn goes on.
	if tok := file("<|end|>", "<|return|>", "<|call|>"); !slices.Equal(tok.Ends(), []int{2, 3}) || tok.IsEnd(1) {
		t.Errorf("harmony: ends %v, want 2 and 3", tok.Ends())
	}
}

// TestNegativeIDs: an id below zero is an error, not a panic, in either list.
func TestNegativeIDs(t *testing.T) {
	for _, text := range []string{
		`{"model":{"type":"BPE","vocab":{"a":-2},"merges":[]}}`,
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":-9,"content":"x"}]}`,
		`{"model":{"type":"BPE","vocab":{"a":-9223372036854775808},"merges":[]}}`,
	} {
		if _, err := FromTokenizerJSON([]byte(text)); !errors.Is(err, ErrVocabulary) {
			t.Errorf("%s: %v, want %v", text, err, ErrVocabulary)
		}
	}
}
