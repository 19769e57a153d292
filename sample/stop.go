package sample

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrStop is wrapped by the error of stop strings that cannot be used.
var ErrStop = errors.New("sample: stop string not valid")

// Stop cuts a streamed text where a stop string begins. How the text is cut
// into pieces does not matter: the stop string that ends first in the whole
// text counts, the longest where several end there. Text that could yet turn
// out to be the beginning of a stop string is held back.
type Stop struct {
	patterns []pattern
	held     string // the newest text, which may begin a stop string
	found    string
}

// pattern is a stop string and how much of it the text's end matches (Knuth,
// Morris, Pratt, 1977).
type pattern struct {
	text    string
	borders []int // [len(text)], the longest proper prefix of text[:i+1] that ends it
	matched int
}

// NewStop returns a Stop for the strings given, which may be none. An empty
// string, or one that is not UTF-8, is an error that wraps [ErrStop].
func NewStop(stops ...string) (*Stop, error) {
	s := &Stop{}
	for i, text := range stops {
		if text == "" || !utf8.ValidString(text) {
			return nil, fmt.Errorf("%w: number %d is %q, want UTF-8 that is not empty", ErrStop, i, text)
		}
		s.patterns = append(s.patterns, newPattern(text))
	}
	return s, nil
}

func newPattern(text string) pattern {
	p := pattern{text: text, borders: make([]int, len(text))}
	for i, n := 1, 0; i < len(text); i++ {
		for n > 0 && text[i] != text[n] {
			n = p.borders[n-1]
		}
		if text[i] == text[n] {
			n++
		}
		p.borders[i] = n
	}
	return p
}

// step reads one byte and reports whether the pattern ends there.
func (p *pattern) step(b byte) bool {
	for p.matched > 0 && p.text[p.matched] != b {
		p.matched = p.borders[p.matched-1]
	}
	if p.text[p.matched] == b {
		p.matched++
	}
	return p.matched == len(p.text)
}

// Write takes the next piece of text and returns what may be shown now, and
// whether a stop string has been found. After that it returns nothing more.
func (s *Stop) Write(piece string) (text string, stopped bool) {
	if s.found != "" {
		return "", true
	}
	whole := s.held + piece
	for i := len(s.held); i < len(whole); i++ {
		if s.step(whole[i]) {
			s.held = ""
			return whole[:i+1-len(s.found)], true
		}
	}
	open := 0
	for i := range s.patterns {
		open = max(open, s.patterns[i].matched)
	}
	s.held = whole[len(whole)-open:]
	return whole[:len(whole)-open], false
}

// step reads one byte with every pattern and reports whether one ends there.
func (s *Stop) step(b byte) bool {
	for i := range s.patterns {
		if p := &s.patterns[i]; p.step(b) && len(p.text) > len(s.found) {
			s.found = p.text
		}
	}
	return s.found != ""
}

// Flush ends the text and returns what was held back.
func (s *Stop) Flush() string {
	held := s.held
	s.held = ""
	for i := range s.patterns {
		s.patterns[i].matched = 0
	}
	return held
}

// Found returns the stop string that ended the text, "" if none did.
func (s *Stop) Found() string { return s.found }
