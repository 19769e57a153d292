package token

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors that the package's errors wrap.
var (
	// ErrVocabulary: the description of a tokenizer contradicts itself.
	ErrVocabulary = errors.New("token: vocabulary not valid")
	// ErrUnsupported: the description names something that is not built here.
	ErrUnsupported = errors.New("token: not supported")
	// ErrUnknown: a text holds what the vocabulary cannot write.
	ErrUnknown = errors.New("token: no token for")
	// ErrTooLong: a text is longer than [MaxText], or grows beyond reason
	// when it is normalized.
	ErrTooLong = errors.New("token: text too long")
	// ErrTimeout: a splitting expression of the file backtracks without end.
	ErrTimeout = errors.New("token: splitting expression takes too long")
)

// MaxText is the most bytes of text that are encoded at once: 2²⁸, or 2²⁴ where an
// int has 32 bits.
const MaxText = 1 << (24 + 4*(^uint(0)>>63))

// maxGrowth bounds how many times longer normalization may make a text.
const maxGrowth = 32

var errUnmade = fmt.Errorf("%w: the tokenizer was never made", ErrVocabulary)

var errGrowth = fmt.Errorf("%w: normalization makes it more than %d times as long", ErrTooLong, maxGrowth)

// Tokenizer turns text into token ids and back. It does not change after it
// has been made and may be used by several goroutines.
type Tokenizer struct {
	pieces  []string // [vocabSize], the bytes that an id stands for
	names   []string // [vocabSize], as the vocabulary writes it
	control []bool   // [vocabSize], special tokens: no text to be shown
	ids     map[string]int32

	added     addedTokens
	normalize []normalizer
	stages    []stage
	model     model

	before, after []int // what AddSpecial puts around a text
	trim          bool  // Decode leaves out one space at the beginning
	bos, eos      int   // -1 where there is none
	ends          []int // ids that end a generation
	chat          string
}

// Encode returns the ids of text. No special token is added, and none is read:
// text that spells one, <|im_end|> for instance, is taken as characters. Where
// the model works on bytes, or falls back on them, bytes that are no UTF-8 are
// encoded as they are; elsewhere they are unknown characters. A byte for which a
// model on bytes has no token is encoded as U+FFFD.
func (t *Tokenizer) Encode(text string) ([]int, error) { return t.encode(text, false, "") }

// EncodeSpecial is Encode, but reads special tokens where text spells them.
// Text of a user should not reach it; see [Tokenizer.EncodeChat].
func (t *Tokenizer) EncodeSpecial(text string) ([]int, error) { return t.encode(text, true, "") }

// encode leaves guard, which parts what a user wrote from being read as a
// special token, out of the text between added tokens.
func (t *Tokenizer) encode(text string, special bool, guard string) ([]int, error) {
	if t == nil || t.model == nil {
		return nil, errUnmade
	}
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLong, len(text), MaxText)
	}
	ids := make([]int, 0, len(text)/3+1)
	w := &work{t: t, guard: guard, deadline: time.Now().Add(expressionTimeout + time.Duration(len(text))*expressionPerByte)}
	for at := 0; at < len(text); {
		id, start, end, found := t.added.next(text, at, special)
		if !found {
			start, end = len(text), len(text)
		}
		var err error
		if ids, err = w.plain(ids, text[at:start], at == 0); err != nil {
			return nil, err
		}
		if found {
			ids = append(ids, int(id))
		}
		at = end
	}
	return ids, nil
}

// AddSpecial returns ids between the special tokens that the model wants
// around a text: for most, the one of the beginning before it, or nothing.
func (t *Tokenizer) AddSpecial(ids []int) []int { return slices.Concat(t.before, ids, t.after) }

// VocabSize is one more than the largest id. A model may have more logits.
func (t *Tokenizer) VocabSize() int { return len(t.pieces) }

// BOS is the id of the token that begins a text; ok is false where the
// vocabulary has none.
func (t *Tokenizer) BOS() (id int, ok bool) { return max(t.bos, 0), t.bos >= 0 }

// Ends returns the ids that end a generation: of a text, or of a turn.
func (t *Tokenizer) Ends() []int { return slices.Clone(t.ends) }

// IsEnd reports whether id is one of [Tokenizer.Ends].
func (t *Tokenizer) IsEnd(id int) bool { return slices.Contains(t.ends, id) }

// IsSpecial reports whether id is a special token, which has no text.
func (t *Tokenizer) IsSpecial(id int) bool { return t.has(id) && t.control[id] }

// Name returns a token as the vocabulary writes it, "Ġthe" or "▁the" for
// instance; "" where it has no such id.
func (t *Tokenizer) Name(id int) string {
	if !t.has(id) {
		return ""
	}
	return t.names[id]
}

// ID returns the id of the token that the vocabulary writes as name.
func (t *Tokenizer) ID(name string) (id int, ok bool) {
	found, ok := t.ids[name]
	return int(found), ok
}

// ChatTemplate returns the source of the model's chat template, "" if it has
// none.
func (t *Tokenizer) ChatTemplate() string { return t.chat }

func (t *Tokenizer) has(id int) bool { return t != nil && id >= 0 && id < len(t.pieces) }
