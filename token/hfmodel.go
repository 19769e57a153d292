package token

import (
	"encoding/json"
	"fmt"

	"github.com/flashdec/flashdec/internal/plainjson"
)

func (f *hfTokenizer) buildBPE(m hfModel, byteLevel bool, dec decoder) (*Tokenizer, error) {
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("%w: BPE with a dropout of %v", ErrUnsupported, *m.Dropout)
	case m.Prefix != "" || m.Suffix != "":
		return nil, fmt.Errorf("%w: BPE with the prefix %q and the suffix %q", ErrUnsupported, m.Prefix, m.Suffix)
	}
	var ids map[string]int64
	if err := m.readVocab(&ids); err != nil {
		return nil, err
	}
	v, err := f.vocabulary(ids, m.ByteFallback)
	if err != nil {
		return nil, err
	}
	unknown := -1
	if m.UnkToken != nil {
		id, ok := ids[*m.UnkToken]
		if !ok {
			return nil, fmt.Errorf("%w: the unknown token %q is not in the vocabulary", ErrVocabulary, *m.UnkToken)
		}
		unknown = int(id)
	}
	model := &bpe{byteLevel: byteLevel, fuseUnknowns: m.FuseUnk}
	if model.atoms, err = v.atoms(v.spelling(byteLevel, ids), unknown); err != nil {
		return nil, err
	}
	if byteLevel {
		model.atoms.byteSpelled()
	} else if m.ByteFallback {
		model.atoms.byteTokens(v)
	}
	if m.IgnoreMerges {
		model.whole = model.atoms.ids
	}
	t, err := v.tokenizer(dec.piece(v))
	if err != nil {
		return nil, err
	}
	pairs := make([][2]string, len(m.Merges))
	for i, p := range m.Merges {
		pairs[i] = p
	}
	t.model = model
	model.pairs, err = v.merges(t.ids, pairs)
	return t, err
}

// readVocab reads the vocabulary into what the type of model has.
func (m *hfModel) readVocab(v any) error {
	if !plainjson.Given(m.Vocab) {
		return fmt.Errorf("%w: tokenizer.json: model.vocab is missing", ErrVocabulary)
	}
	if err := plainjson.Unmarshal(m.Vocab, v); err != nil {
		return fmt.Errorf("%w: tokenizer.json: model.vocab: %w", ErrVocabulary, err)
	}
	return nil
}

// spelling returns what text becomes a token: only those of the model's own
// vocabulary can, the others are found beforehand.
func (v vocabulary) spelling(byteLevel bool, own map[string]int64) func(id int) (string, bool) {
	return func(id int) (string, bool) {
		name := v.names[id]
		if _, ok := own[name]; !ok {
			return "", false
		}
		if byteLevel {
			return unwrite(name)
		}
		return name, true
	}
}

func (f *hfTokenizer) buildUnigram(m hfModel, dec decoder) (*Tokenizer, error) {
	var pairs []hfScored
	if err := m.readVocab(&pairs); err != nil {
		return nil, err
	}
	ids := make(map[string]int64, len(pairs))
	for id, p := range pairs {
		if at, twice := ids[p.text]; twice {
			return nil, fmt.Errorf("%w: the token %q has two ids, %d and %d", ErrVocabulary, p.text, at, id)
		}
		ids[p.text] = int64(id)
	}
	v, err := f.vocabulary(ids, m.ByteFallback)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(v.names))
	for id, p := range pairs {
		scores[id] = p.score
	}
	unknown := -1
	if m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= int64(len(pairs)) {
			return nil, fmt.Errorf("%w: unk_id %d of %d tokens", ErrVocabulary, *m.UnkID, len(pairs))
		}
		unknown = int(*m.UnkID)
	}
	a, err := v.atoms(v.spelling(false, ids), unknown)
	if err != nil {
		return nil, err
	}
	if m.ByteFallback {
		a.byteTokens(v)
	}
	t, err := v.tokenizer(dec.piece(v))
	if err != nil {
		return nil, err
	}
	t.model, err = newUnigram(a, scores)
	return t, err
}

// hfScored is ["text", score].
type hfScored struct {
	text  string
	score float64
}

func (s *hfScored) UnmarshalJSON(data []byte) error {
	pair := []any{&s.text, &s.score}
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a token of %d fields, want its text and its score", len(pair))
	}
	return nil
}
