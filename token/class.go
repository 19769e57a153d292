package token

import (
	"unicode"
	"unicode/utf8"
)

// class is what the splitting expressions tell characters apart by.
type class uint8

const (
	other   class = iota // punctuation, symbols, controls, bytes that are no UTF-8
	newline              // \r \n
	space                // \s but for \r \n
	number               // \p{N}
	mark                 // \p{M}
	lower                // \p{Ll}
	upper                // \p{Lu} \p{Lt}
	letter               // \p{Lm} \p{Lo}: letters without case
)

var asciiClass = newASCIIClass()

func newASCIIClass() (table [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		table[r] = unicodeClass(r)
	}
	return table
}

func unicodeClass(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsSpace(r):
		return space
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.Is(unicode.Lu, r) || unicode.Is(unicode.Lt, r):
		return upper
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsMark(r):
		return mark
	}
	return other
}

// classAt returns the class and the length of the character at text[i:]; at
// the end of the text the length is 0. A byte that is no UTF-8 is a character
// of its own.
func classAt(text string, i int) (class, int) {
	if i >= len(text) {
		return other, 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return unicodeClass(r), n
}

// set is a set of classes.
type set uint16

func setOf(classes ...class) (s set) {
	for _, c := range classes {
		s |= 1 << c
	}
	return s
}

func (s set) has(c class) bool { return s>>c&1 != 0 }

// run returns where the run of characters of s that begins at text[i] ends.
func (s set) run(text string, i int) int {
	for {
		c, n := classAt(text, i)
		if n == 0 || !s.has(c) {
			return i
		}
		i += n
	}
}

// The classes of the expressions' character sets. A mark is neither a letter
// nor a number nor white space: it is in [^\s\p{L}\p{N}].
var (
	letters  = setOf(lower, upper, letter)       // \p{L}
	numbers  = setOf(number)                     // \p{N}
	spaces   = setOf(newline, space)             // \s
	newlines = setOf(newline)                    // [\r\n]
	symbols  = setOf(other, mark)                // [^\s\p{L}\p{N}]
	marked   = setOf(lower, upper, letter, mark) // [\p{L}\p{M}]
	unmarked = setOf(other)                      // [^\s\p{L}\p{M}\p{N}]
	leads    = setOf(other, space, mark)         // [^\r\n\p{L}\p{N}]
	uppers   = setOf(upper, letter, mark)        // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lowers   = setOf(lower, letter, mark)        // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)
