package token

import (
	"encoding/json"
	"fmt"

	"golang.org/x/text/unicode/norm"

	"github.com/flashdec/flashdec/internal/plainjson"
)

const (
	maxNesting    = 8       // how deep sequences of components may stand in one another
	maxComponents = 1 << 20 // bytes of JSON of one kind of them
)

// component is a part of tokenizer.json: a normalizer, a pre-tokenizer, a
// decoder or a post-processor, with the fields of all of them.
type component struct {
	Type string `json:"type"`

	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Decoders      []component `json:"decoders"`
	Processors    []component `json:"processors"`

	Prepend string    `json:"prepend"`
	Pattern hfPattern `json:"pattern"`
	Content string    `json:"content"`
	Start   int       `json:"start"`
	Stop    int       `json:"stop"`

	AddPrefixSpace   *bool    `json:"add_prefix_space"`
	UseRegex         *bool    `json:"use_regex"`
	Behavior         behavior `json:"behavior"`
	Invert           bool     `json:"invert"`
	IndividualDigits bool     `json:"individual_digits"`
	Replacement      string   `json:"replacement"`
	PrependScheme    string   `json:"prepend_scheme"`
	Split            *bool    `json:"split"`

	Single        []templatePiece            `json:"single"`
	SpecialTokens map[string]templateSpecial `json:"special_tokens"`
}

// hfPattern is {"String": …} or {"Regex": …}.
type hfPattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// parseComponents returns the components of data in their order, with
// sequences, whose parts children gives, taken apart. null is none.
func parseComponents(what string, data json.RawMessage, children func(*component) []component) ([]component, error) {
	if !plainjson.Given(data) {
		return nil, nil
	}
	if len(data) > maxComponents {
		return nil, fmt.Errorf("%w: tokenizer.json: %s of %d bytes, want at most %d", ErrUnsupported, what, len(data), maxComponents)
	}
	var c component
	if err := plainjson.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%w: tokenizer.json: %s: %w", ErrVocabulary, what, err)
	}
	return flatten(what, c, children, nil, 0)
}

func flatten(what string, c component, children func(*component) []component, out []component, depth int) ([]component, error) {
	if c.Type != "Sequence" {
		return append(out, c), nil
	}
	if depth == maxNesting {
		return nil, fmt.Errorf("%w: %s: sequences more than %d deep", ErrUnsupported, what, maxNesting)
	}
	var err error
	for _, part := range children(&c) {
		if out, err = flatten(what, part, children, out, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parseNormalizer(data json.RawMessage) ([]normalizer, error) {
	parts, err := parseComponents("normalizer", data, func(c *component) []component { return c.Normalizers })
	if err != nil {
		return nil, err
	}
	var out []normalizer
	for _, c := range parts {
		n, err := c.normalizer()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func (c *component) normalizer() (normalizer, error) {
	switch c.Type {
	case "NFC":
		return form(norm.NFC), nil
	case "NFD":
		return form(norm.NFD), nil
	case "NFKC":
		return form(norm.NFKC), nil
	case "NFKD":
		return form(norm.NFKD), nil
	case "Prepend":
		return prepend(c.Prepend), nil
	case "Replace":
		find, err := c.Pattern.finder()
		return replace{find, c.Content}, err
	}
	return nil, fmt.Errorf("%w: normalizer %q; known are NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence", ErrUnsupported, c.Type)
}

func (p hfPattern) finder() (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return literal(*p.String), nil
	case p.Regex != nil && *p.Regex != "":
		return compile(*p.Regex)
	}
	return nil, fmt.Errorf("%w: tokenizer.json: a pattern that is empty", ErrVocabulary)
}

// preTokenizer is the stages, and whether they end in bytes.
type preTokenizer struct {
	stages    []stage
	byteLevel bool
}

func parsePreTokenizer(data json.RawMessage) (p preTokenizer, err error) {
	parts, err := parseComponents("pre_tokenizer", data, func(c *component) []component { return c.PreTokenizers })
	if err != nil {
		return p, err
	}
	for _, c := range parts {
		if p.byteLevel {
			return p, fmt.Errorf("%w: pre-tokenizer %q after ByteLevel", ErrUnsupported, c.Type)
		}
		if err := p.add(&c); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *preTokenizer) add(c *component) error {
	switch c.Type {
	case "ByteLevel":
		p.byteLevel = true
		if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
			p.stages = append(p.stages, spacePrefix{})
		}
		if c.UseRegex == nil || *c.UseRegex {
			p.stages = append(p.stages, scanner(scanGPT2))
		}
		return nil
	case "Digits":
		p.stages = append(p.stages, digits{c.IndividualDigits})
		return nil
	case "Metaspace":
		m, err := c.metaspace()
		p.stages = append(p.stages, m)
		return err
	case "Split":
		s, err := c.splitStage()
		p.stages = append(p.stages, s)
		return err
	}
	return fmt.Errorf("%w: pre-tokenizer %q; known are ByteLevel, Digits, Metaspace, Split, Sequence", ErrUnsupported, c.Type)
}

func (c *component) metaspace() (metaspace, error) {
	m := metaspace{mark: c.Replacement, prefix: c.PrependScheme, cut: c.Split == nil || *c.Split}
	if m.mark == "" {
		m.mark = spaceMark
	}
	if m.prefix == "" {
		m.prefix = "always"
		if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
			m.prefix = "never"
		}
	}
	switch m.prefix {
	case "always", "first", "never":
		return m, nil
	}
	return m, fmt.Errorf("%w: Metaspace: prepend_scheme %q, want always, first or never", ErrUnsupported, m.prefix)
}

func (c *component) splitStage() (stage, error) {
	switch c.Behavior {
	case removed, isolated, withPrevious, withNext, contiguous:
	default:
		return nil, fmt.Errorf("%w: Split: behavior %q", ErrUnsupported, c.Behavior)
	}
	if c.Pattern.Regex != nil && *c.Pattern.Regex != "" {
		return splitter(*c.Pattern.Regex, c.Invert, c.Behavior)
	}
	find, err := c.Pattern.finder()
	return cutter{find: find, invert: c.Invert, then: c.Behavior}, err
}
