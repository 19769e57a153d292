package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/flashdec/flashdec/internal/plainjson"
)

// hfTokenizer is tokenizer.json.
type hfTokenizer struct {
	AddedTokens   []hfAdded       `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type hfAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Special    bool   `json:"special"`
}

// hfModel is its model, of either type.
type hfModel struct {
	Type  string          `json:"type"`
	Vocab json.RawMessage `json:"vocab"` // BPE: an object of ids; Unigram: an array of pairs of text and score

	ByteFallback bool `json:"byte_fallback"`

	Merges       []hfMerge `json:"merges"`
	UnkToken     *string   `json:"unk_token"`
	FuseUnk      bool      `json:"fuse_unk"`
	IgnoreMerges bool      `json:"ignore_merges"`
	Dropout      *float64  `json:"dropout"`
	Prefix       string    `json:"continuing_subword_prefix"`
	Suffix       string    `json:"end_of_word_suffix"`

	UnkID *int64 `json:"unk_id"`
}

// hfMerge is "left right" or ["left", "right"].
type hfMerge [2]string

func (m *hfMerge) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var pair []string
		if err := json.Unmarshal(data, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("a merge of %d tokens, want 2", len(pair))
		}
		*m = hfMerge{pair[0], pair[1]}
		return nil
	}
	var line string
	if err := json.Unmarshal(data, &line); err != nil {
		return err
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok {
		return fmt.Errorf("a merge without a space: %q", line)
	}
	*m = hfMerge{left, right}
	return nil
}

// maxTokenizerJSON bounds the memory of reading one. The largest in use have
// some 35 MB.
const maxTokenizerJSON = 1 << 26

// FromTokenizerJSON makes the tokenizer that a Hugging Face tokenizer.json
// describes. It builds the models BPE and Unigram; the normalizers NFC, NFD,
// NFKC, NFKD, Prepend, Replace; the pre-tokenizers ByteLevel, Digits,
// Metaspace, Split; the decoders ByteLevel, ByteFallback, Fuse, Metaspace,
// Replace, Strip; the post-processors ByteLevel and TemplateProcessing; and
// sequences of them. Added tokens are looked for in the text as it is, those
// marked as normalized too. Errors wrap [ErrVocabulary] or [ErrUnsupported].
func FromTokenizerJSON(data []byte) (*Tokenizer, error) {
	if len(data) > maxTokenizerJSON {
		return nil, fmt.Errorf("%w: a tokenizer.json of %d bytes, want at most %d", ErrUnsupported, len(data), maxTokenizerJSON)
	}
	var f hfTokenizer
	if err := plainjson.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%w: tokenizer.json: %w", ErrVocabulary, err)
	}
	if !plainjson.Given(f.Model) {
		return nil, fmt.Errorf("%w: tokenizer.json: model is missing", ErrVocabulary)
	}
	var m hfModel
	if err := plainjson.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("%w: tokenizer.json: model: %w", ErrVocabulary, err)
	}
	pre, err := parsePreTokenizer(f.PreTokenizer)
	if err != nil {
		return nil, err
	}
	normalize, err := parseNormalizer(f.Normalizer)
	if err != nil {
		return nil, err
	}
	dec, err := parseDecoder(f.Decoder)
	if err != nil {
		return nil, err
	}
	t, err := f.build(m, pre.byteLevel, dec)
	if err != nil {
		return nil, err
	}
	t.normalize, t.stages, t.trim = normalize, pre.stages, dec.trim
	if err := t.parsePostProcessor(f.PostProcessor); err != nil {
		return nil, err
	}
	t.addKnownEnds()
	return t, nil
}

// build returns the tokenizer with its model.
func (f *hfTokenizer) build(m hfModel, byteLevel bool, dec decoder) (*Tokenizer, error) {
	kindOfModel := m.Type
	if kindOfModel == "" && m.Merges != nil {
		kindOfModel = "BPE" // files of the first releases name no type
	}
	switch {
	case kindOfModel == "BPE":
		return f.buildBPE(m, byteLevel, dec)
	case kindOfModel == "Unigram" && !byteLevel:
		return f.buildUnigram(m, dec)
	case kindOfModel == "Unigram":
		return nil, fmt.Errorf("%w: a Unigram model on bytes", ErrUnsupported)
	}
	return nil, fmt.Errorf("%w: model type %q; known are BPE, Unigram", ErrUnsupported, m.Type)
}

// vocabulary joins the model's vocabulary and the added tokens. Ids that
// neither names are unused.
func (f *hfTokenizer) vocabulary(ids map[string]int64, byteFallback bool) (vocabulary, error) {
	all := maps.Clone(ids)
	if all == nil {
		all = map[string]int64{}
	}
	for _, a := range f.AddedTokens {
		if id, ok := all[a.Content]; ok && id != a.ID {
			return vocabulary{}, fmt.Errorf("%w: the added token %q has two ids, %d and %d", ErrVocabulary, a.Content, id, a.ID)
		}
		all[a.Content] = a.ID
	}
	names, err := byID(all)
	if err != nil {
		return vocabulary{}, err
	}
	v := vocabulary{names: names, kinds: make([]kind, len(names)), rules: map[int32]added{}}
	for id, name := range names {
		if at, ok := all[name]; !ok || at != int64(id) {
			v.kinds[id] = unused
		} else if _, ok := byteToken(name); ok && byteFallback {
			v.kinds[id] = byteKind
		}
	}
	for _, a := range f.AddedTokens {
		v.kinds[a.ID] = userDefined
		if a.Special {
			v.kinds[a.ID] = controlKind
		}
		v.rules[int32(a.ID)] = added{left: a.LStrip, right: a.RStrip, wholeWord: a.SingleWord}
	}
	v.secureEnds()
	return v, nil
}

// byID inverts ids. There may be gaps, but no more of them than tokens.
func byID(ids map[string]int64) ([]string, error) {
	if len(ids) == 0 || len(ids) > maxTokens {
		return nil, fmt.Errorf("%w: %d tokens, want 1 to %d", ErrVocabulary, len(ids), maxTokens)
	}
	largest := int64(-1)
	for name, id := range ids {
		if id < 0 {
			return nil, fmt.Errorf("%w: the token %q has the id %d", ErrVocabulary, name, id)
		}
		largest = max(largest, id)
	}
	if largest >= 2*int64(len(ids))+math.MaxUint16 {
		return nil, fmt.Errorf("%w: an id of %d in a vocabulary of %d tokens", ErrVocabulary, largest, len(ids))
	}
	names, taken := make([]string, largest+1), make([]bool, largest+1)
	for name, id := range ids {
		if taken[id] {
			return nil, fmt.Errorf("%w: two tokens have the id %d, %q is one", ErrVocabulary, id, name)
		}
		names[id], taken[id] = name, true
	}
	return names, checkTokens(names)
}
