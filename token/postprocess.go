package token

import (
	"encoding/json"
	"fmt"
	"strings"
)

// decoder turns a token's name into its text.
type decoder struct {
	steps     []func(name string) (text string, done bool)
	byteLevel bool // one of the steps; added tokens are not written in bytes
	trim      bool // a whole text loses one space at its beginning
}

func parseDecoder(data json.RawMessage) (d decoder, err error) {
	parts, err := parseComponents("decoder", data, func(c *component) []component { return c.Decoders })
	if err != nil {
		return d, err
	}
	for _, c := range parts {
		if err := d.add(&c); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *decoder) add(c *component) error {
	switch c.Type {
	case "ByteLevel":
		d.byteLevel = true
		d.steps = append(d.steps, func(name string) (string, bool) {
			if raw, ok := unwrite(name); ok {
				return raw, true
			}
			return name, false
		})
		return nil
	case "ByteFallback":
		d.steps = append(d.steps, func(name string) (string, bool) {
			if b, ok := byteToken(name); ok {
				return string([]byte{b}), true
			}
			return name, false
		})
		return nil
	case "Fuse":
		return nil // pieces are joined without anything between them
	case "Metaspace":
		m, err := c.metaspace()
		d.steps = append(d.steps, replaced(m.mark, " "))
		d.trim = d.trim || m.prefix != "never"
		return err
	case "Replace":
		if c.Pattern.String != nil && *c.Pattern.String != "" {
			d.steps = append(d.steps, replaced(*c.Pattern.String, c.Content))
			return nil
		}
	case "Strip":
		if c.Content == " " && c.Start == 1 && c.Stop == 0 {
			d.trim = true
			return nil
		}
	}
	return fmt.Errorf("%w: decoder %q with content %q; known are ByteLevel, ByteFallback, Fuse, Metaspace, "+
		"Replace of a string, Strip of one space from the beginning, Sequence", ErrUnsupported, c.Type, c.Content)
}

func replaced(old, with string) func(string) (string, bool) {
	return func(name string) (string, bool) { return strings.ReplaceAll(name, old, with), false }
}

// piece returns the function that gives the text of an id.
func (d decoder) piece(v vocabulary) func(id int) string {
	return func(id int) string {
		text := v.names[id]
		if d.byteLevel && v.asWritten(id) {
			return text
		}
		for _, step := range d.steps {
			var done bool
			if text, done = step(text); done {
				break
			}
		}
		return text
	}
}

// templatePiece is {"Sequence": {"id": "A"}} or {"SpecialToken": {"id": "<s>"}}.
type templatePiece struct {
	Sequence     *struct{ ID string } `json:"Sequence"`
	SpecialToken *struct{ ID string } `json:"SpecialToken"`
}

type templateSpecial struct {
	IDs []int64 `json:"ids"`
}

// parsePostProcessor reads what AddSpecial puts around one text.
func (t *Tokenizer) parsePostProcessor(data json.RawMessage) error {
	parts, err := parseComponents("post_processor", data, func(c *component) []component { return c.Processors })
	if err != nil {
		return err
	}
	for _, c := range parts {
		switch c.Type {
		case "ByteLevel": // is about offsets alone
		case "TemplateProcessing":
			if err := t.template(&c); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: post-processor %q; known are ByteLevel, TemplateProcessing, Sequence", ErrUnsupported, c.Type)
		}
	}
	return nil
}

func (t *Tokenizer) template(c *component) error {
	sequences := 0
	var before, after []int
	for _, p := range c.Single {
		switch {
		case p.Sequence != nil:
			sequences++
		case p.SpecialToken != nil:
			ids, err := t.templateIDs(c, p.SpecialToken.ID)
			if err != nil {
				return err
			}
			if sequences == 0 {
				before = append(before, ids...)
			} else {
				after = append(after, ids...)
			}
		}
	}
	if sequences != 1 {
		return fmt.Errorf("%w: TemplateProcessing: the text stands %d times in the template, want once", ErrVocabulary, sequences)
	}
	t.before, t.after = append(before, t.before...), append(t.after, after...)
	if len(before) > 0 {
		t.bos = before[0]
	}
	return nil
}

func (t *Tokenizer) templateIDs(c *component, name string) ([]int, error) {
	special, ok := c.SpecialTokens[name]
	if !ok {
		return nil, fmt.Errorf("%w: TemplateProcessing: no special token %q", ErrVocabulary, name)
	}
	var out []int
	for _, id := range special.IDs {
		if id < 0 || id >= int64(len(t.pieces)) {
			return nil, fmt.Errorf("%w: TemplateProcessing: %q is the id %d of %d", ErrVocabulary, name, id, len(t.pieces))
		}
		out = append(out, int(id))
	}
	return out, nil
}
