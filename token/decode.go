package token

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids. Special tokens, and ids that the vocabulary
// does not have, have none. The bytes are those of the tokens: where the ids
// are not of a whole text they may begin or end inside a character.
func (t *Tokenizer) Decode(ids []int) string {
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(t.piece(id))
	}
	if t.trim {
		return strings.TrimPrefix(out.String(), " ")
	}
	return out.String()
}

// piece returns the bytes of an id, none for special and unknown ones.
func (t *Tokenizer) piece(id int) string {
	if !t.has(id) || t.control[id] {
		return ""
	}
	return t.pieces[id]
}

// Stream decodes ids as they come, into text that goes on from text before
// it: a space at the beginning stays. What it returns is always UTF-8.
type Stream struct {
	t    *Tokenizer
	held []byte // the beginning of a character
}

// Stream returns a new Stream.
func (t *Tokenizer) Stream() *Stream { return &Stream{t: t} }

// Next returns the text that id completes. The bytes of a character are held
// back until it is whole; bytes that can be part of none come out as U+FFFD.
func (s *Stream) Next(id int) string {
	s.held = append(s.held, s.t.piece(id)...)
	var out strings.Builder
	for len(s.held) > 0 && utf8.FullRune(s.held) {
		r, n := utf8.DecodeRune(s.held)
		out.WriteRune(r)
		s.held = s.held[n:]
	}
	return out.String()
}

// Flush ends the text. A character that has not been completed is U+FFFD.
func (s *Stream) Flush() string {
	if len(s.held) == 0 {
		return ""
	}
	s.held = s.held[:0]
	return string(utf8.RuneError)
}
