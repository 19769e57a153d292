package token

import (
	"fmt"
	"slices"
	"strings"
)

// FromGGUF makes the tokenizer that a GGUF file's metadata describes, as package
// gguf's File.Metadata has it: string, bool, an integer of any width, []string
// for tokens and merges, []float32 for scores, []int32 or []uint32 for types.
// It reads the keys tokenizer.ggml.* and tokenizer.chat_template. The models
// are "gpt2", byte-level BPE, and "llama", SentencePiece's BPE. Errors wrap
// [ErrVocabulary] or [ErrUnsupported].
func FromGGUF(metadata map[string]any) (*Tokenizer, error) {
	if len(metadata) == 0 {
		return nil, fmt.Errorf("%w: no metadata", ErrVocabulary)
	}
	f := &ggufFile{metadata: metadata}
	v := f.vocabulary()
	name := f.text("tokenizer.ggml.model")
	if f.err != nil {
		return nil, f.err
	}
	var t *Tokenizer
	var err error
	switch name {
	case "gpt2":
		t, err = f.byteLevel(v)
	case "llama":
		t, err = f.sentencePiece(v)
	default:
		return nil, fmt.Errorf("%w: tokenizer.ggml.model %q; known are gpt2, llama", ErrUnsupported, name)
	}
	if err != nil {
		return nil, err
	}
	f.finish(t)
	return t, f.err
}

// ggufFile reads metadata and keeps the first error.
type ggufFile struct {
	metadata map[string]any
	err      error
}

func (f *ggufFile) vocabulary() vocabulary {
	names, _ := optional[[]string](f, "tokenizer.ggml.tokens")
	v := vocabulary{names: names, kinds: make([]kind, len(names))}
	if err := checkTokens(names); err != nil {
		f.fail(err)
		return v
	}
	types := f.types()
	if types != nil && len(types) != len(names) {
		f.fail(fmt.Errorf("%w: %d token types for %d tokens", ErrVocabulary, len(types), len(names)))
		return v
	}
	for id, x := range types {
		k, ok := map[int64]kind{1: ordinary, 2: unknownKind, 3: controlKind, 4: userDefined, 5: unused, 6: byteKind}[x]
		if !ok {
			f.fail(fmt.Errorf("%w: token %d has the type %d, want 1 to 6", ErrVocabulary, id, x))
			return v
		}
		v.kinds[id] = k
	}
	v.secureEnds()
	return v
}

// types returns the token types, nil where the file has none.
func (f *ggufFile) types() []int64 {
	switch x := f.metadata["tokenizer.ggml.token_type"].(type) {
	case nil:
		return nil
	case []int32:
		return widen(x)
	case []uint32:
		return widen(x)
	default:
		f.fail(fmt.Errorf("%w: tokenizer.ggml.token_type is %T, want an array of 32-bit integers", ErrVocabulary, x))
		return nil
	}
}

func widen[T int32 | uint32](x []T) []int64 {
	out := make([]int64, len(x))
	for i := range x {
		out[i] = int64(x[i])
	}
	return out
}

func (f *ggufFile) byteLevel(v vocabulary) (*Tokenizer, error) {
	pre, err := findPretokenizer(f.text("tokenizer.ggml.pre"))
	if err != nil {
		return nil, err
	}
	lines, ok := optional[[]string](f, "tokenizer.ggml.merges")
	if !ok { // without merges every byte would be a token of its own, and the text another
		f.fail(fmt.Errorf("%w: no tokenizer.ggml.merges, which byte-level BPE needs", ErrVocabulary))
	}
	bos := f.flag("tokenizer.ggml.add_bos_token", pre.bos)
	unknown := f.id("tokenizer.ggml.unknown_token_id", len(v.names))
	if f.err != nil {
		return nil, f.err
	}
	t, m, err := byteLevelBPE(v, unknown, splitMerges(lines))
	if err != nil {
		return nil, err
	}
	if pre.whole {
		m.whole = m.atoms.ids
	}
	t.model = m
	if t.stages, err = splitters(pre.stages); err != nil {
		return nil, err
	}
	return t, f.around(t, bos)
}

// splitMerges cuts each merge at its space; the first character may be one.
func splitMerges(lines []string) [][2]string {
	out := make([][2]string, len(lines))
	for i, line := range lines {
		if at := strings.IndexByte(line[min(1, len(line)):], ' '); at >= 0 {
			out[i] = [2]string{line[:at+1], line[at+2:]}
		}
	}
	return out
}

// byteLevelBPE returns a tokenizer without stages, and its model.
func byteLevelBPE(v vocabulary, unknown int, pairs [][2]string) (*Tokenizer, *bpe, error) {
	t, err := v.tokenizer(func(id int) string {
		if raw, ok := unwrite(v.names[id]); ok && !v.asWritten(id) {
			return raw
		}
		return v.names[id]
	})
	if err != nil {
		return nil, nil, err
	}
	a, err := v.atoms(func(id int) (string, bool) { return unwrite(v.names[id]) }, unknown)
	if err != nil {
		return nil, nil, err
	}
	a.byteSpelled()
	m := &bpe{atoms: a, byteLevel: true}
	m.pairs, err = v.merges(t.ids, pairs)
	return t, m, err
}

// spaceMark is how SentencePiece writes a space.
const spaceMark = "▁"

func (f *ggufFile) sentencePiece(v vocabulary) (*Tokenizer, error) {
	scores, _ := optional[[]float32](f, "tokenizer.ggml.scores")
	spaced := f.flag("tokenizer.ggml.add_space_prefix", true)
	bos := f.flag("tokenizer.ggml.add_bos_token", true)
	unknown := f.id("tokenizer.ggml.unknown_token_id", len(v.names))
	if f.err != nil {
		return nil, f.err
	}
	if len(scores) != len(v.names) {
		return nil, fmt.Errorf("%w: %d scores for %d tokens", ErrVocabulary, len(scores), len(v.names))
	}
	t, err := v.tokenizer(func(id int) string {
		if b, ok := byteToken(v.names[id]); ok && v.kinds[id] == byteKind {
			return string([]byte{b})
		}
		if v.asWritten(id) {
			return v.names[id]
		}
		return strings.ReplaceAll(v.names[id], spaceMark, " ")
	})
	if err != nil {
		return nil, err
	}
	a, err := v.atoms(func(id int) (string, bool) { return v.names[id], true }, unknown)
	if err != nil {
		return nil, err
	}
	a.byteTokens(v)
	if t.model, err = newScored(a, scores); err != nil {
		return nil, err
	}
	if spaced {
		t.normalize, t.trim = []normalizer{prepend(spaceMark)}, true
	}
	t.normalize = append(t.normalize, replace{literal(" "), spaceMark})
	return t, f.around(t, bos)
}

// around sets what AddSpecial adds.
func (f *ggufFile) around(t *Tokenizer, bos bool) error {
	t.bos = f.id("tokenizer.ggml.bos_token_id", len(t.names))
	t.eos = f.id("tokenizer.ggml.eos_token_id", len(t.names))
	if bos {
		if t.bos < 0 {
			return fmt.Errorf("%w: a text begins with BOS, and there is no tokenizer.ggml.bos_token_id", ErrVocabulary)
		}
		t.before = []int{t.bos}
	}
	if f.flag("tokenizer.ggml.add_eos_token", false) {
		if t.eos < 0 {
			return fmt.Errorf("%w: a text ends with EOS, and there is no tokenizer.ggml.eos_token_id", ErrVocabulary)
		}
		t.after = []int{t.eos}
	}
	return f.err
}

func (f *ggufFile) finish(t *Tokenizer) {
	for _, key := range []string{"eos", "eot", "eom"} {
		if id := f.id("tokenizer.ggml."+key+"_token_id", len(t.names)); id >= 0 {
			t.addEnd(id)
		}
	}
	t.addKnownEnds()
	t.chat = f.text("tokenizer.chat_template")
}

func (t *Tokenizer) addEnd(id int) {
	if !slices.Contains(t.ends, id) {
		t.ends = append(t.ends, id)
	}
}

// addKnownEnds adds the special tokens that are known to end a turn or a text.
// In harmony <|end|> ends a message, after which the turn may go on.
func (t *Tokenizer) addKnownEnds() {
	_, harmony := t.ids["<|return|>"]
	for _, name := range knownEnds {
		if id, ok := t.ids[name]; ok && t.control[id] && !(harmony && name == "<|end|>") {
			t.addEnd(int(id))
		}
	}
}

func (f *ggufFile) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// optional returns the value of a key, the zero value where there is none.
func optional[T any](f *ggufFile, key string) (value T, ok bool) {
	x, ok := f.metadata[key]
	if !ok || x == nil {
		return value, false
	}
	if value, ok = x.(T); !ok {
		f.fail(fmt.Errorf("%w: %s is %T, want %T", ErrVocabulary, key, x, value))
	}
	return value, ok
}

func (f *ggufFile) text(key string) string {
	s, _ := optional[string](f, key)
	return s
}

func (f *ggufFile) flag(key string, otherwise bool) bool {
	if b, ok := optional[bool](f, key); ok {
		return b
	}
	return otherwise
}

// id returns the id under a key, −1 where there is none.
func (f *ggufFile) id(key string, vocabSize int) int {
	x, ok := f.metadata[key]
	if !ok {
		return -1
	}
	id, ok := integer(x)
	if !ok || id < 0 || id >= int64(vocabSize) {
		f.fail(fmt.Errorf("%w: %s is %v, want an id below %d", ErrVocabulary, key, x, vocabSize))
		return -1
	}
	return int(id)
}

func integer(x any) (int64, bool) {
	switch x := x.(type) {
	case uint8:
		return int64(x), true
	case int8:
		return int64(x), true
	case uint16:
		return int64(x), true
	case int16:
		return int64(x), true
	case uint32:
		return int64(x), true
	case int32:
		return int64(x), true
	case uint64:
		return int64(x), x < 1<<62
	case int64:
		return x, true
	case int:
		return int64(x), true
	}
	return 0, false
}
