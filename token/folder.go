package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/flashdec/flashdec/internal/plainjson"
)

// maxConfig bounds the small files of a folder.
const maxConfig = 1 << 22

// FromFolder makes the tokenizer of a Hugging Face model folder: from
// tokenizer.json and, where they are there, the special tokens of
// tokenizer_config.json, the end ids of config.json and generation_config.json,
// and the chat template of chat_template.jinja or tokenizer_config.json.
// Errors wrap [ErrVocabulary], [ErrUnsupported] or those of fsys.
func FromFolder(fsys fs.FS) (*Tokenizer, error) {
	if fsys == nil {
		return nil, fmt.Errorf("%w: no folder", ErrVocabulary)
	}
	data, err := readBounded(fsys, "tokenizer.json", maxTokenizerJSON)
	if err != nil {
		return nil, err
	}
	t, err := FromTokenizerJSON(data)
	if err != nil {
		return nil, err
	}
	var c folderConfig
	for _, name := range []string{"tokenizer_config.json", "config.json", "generation_config.json"} {
		if err := readJSON(fsys, name, &c); err != nil {
			return nil, err
		}
		for _, id := range c.EOSIDs {
			if id >= 0 && id < int64(t.VocabSize()) {
				t.addEnd(int(id))
			}
		}
		c.EOSIDs = nil
	}
	c.apply(t)
	template, err := readBounded(fsys, "chat_template.jinja", maxConfig)
	if err == nil {
		t.chat = string(template)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return t, nil
}

// folderConfig is what is read of a folder's small files.
type folderConfig struct {
	BOS      tokenName    `json:"bos_token"`
	EOS      tokenName    `json:"eos_token"`
	AddBOS   bool         `json:"add_bos_token"`
	Template chatTemplate `json:"chat_template"`
	EOSIDs   idList       `json:"eos_token_id"`
}

func (c *folderConfig) apply(t *Tokenizer) {
	if id, ok := t.ids[string(c.BOS)]; ok {
		t.bos = int(id)
		if c.AddBOS && len(t.before) == 0 {
			t.before = []int{t.bos}
		}
	}
	if id, ok := t.ids[string(c.EOS)]; ok {
		t.eos = int(id)
		t.addEnd(t.eos)
	}
	t.chat = string(c.Template)
}

// tokenName is "<s>", {"content": "<s>"} or null.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var long struct{ Content string }
		err := json.Unmarshal(data, &long)
		*n = tokenName(long.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(n))
}

// chatTemplate is a template, or a list of named ones, of which "default"
// counts.
type chatTemplate string

func (c *chatTemplate) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	for _, n := range named {
		if n.Name == "default" {
			*c = chatTemplate(n.Template)
		}
	}
	return nil
}

// idList is an id, a list of them, or null.
type idList []int64

func (l *idList) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]int64)(l))
	}
	var id *int64
	if err := json.Unmarshal(data, &id); err != nil || id == nil {
		return err
	}
	*l = idList{*id}
	return nil
}

// readJSON reads a file into v; one that is not there is left out.
func readJSON(fsys fs.FS, name string, v any) error {
	data, err := readBounded(fsys, name, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := plainjson.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrVocabulary, name, err)
	}
	return nil
}

func readBounded(fsys fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // asked first, because opening a pipe waits for its writer
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is %v, want a regular file", ErrUnsupported, name, info.Mode())
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("token: %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrUnsupported, name, most)
	}
	return data, nil
}
