package token

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2"
)

// expression finds the matches of an expression that has no hand-written form.
// It backtracks, so an encoding has a limit of time.
type expression struct{ re *regexp2.Regexp }

const (
	maxExpression     = 1 << 14               // bytes
	expressionTimeout = 10 * time.Second      // of a match, and of an encoding with
	expressionPerByte = 10 * time.Microsecond // for each byte of its text
)

func compile(source string) (expression, error) {
	if len(source) > maxExpression {
		return expression{}, fmt.Errorf("%w: a splitting expression of %d bytes, want at most %d", ErrUnsupported, len(source), maxExpression)
	}
	re, err := regexp2.Compile(source, regexp2.None)
	if err != nil {
		return expression{}, fmt.Errorf("%w: splitting expression: %w", ErrUnsupported, err)
	}
	re.MatchTimeout = expressionTimeout
	return expression{re}, nil
}

func (e expression) matches(text string, deadline time.Time, yield func(start, end int)) error {
	runes, offsets := decode(text)
	m, err := e.re.FindRunesMatch(runes)
	for ; m != nil && err == nil; m, err = e.re.FindNextMatch(m) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %q", ErrTimeout, e.re)
		}
		if m.Length > 0 {
			yield(offsets[m.Index], offsets[m.Index+m.Length])
		}
	}
	if err != nil { // it has no other, and quotes the whole text
		return fmt.Errorf("%w: %q", ErrTimeout, e.re)
	}
	return nil
}

// decode returns the characters of text, a byte that is no UTF-8 as U+FFFD,
// and where each begins, with the text's end as the last.
func decode(text string) (runes []rune, offsets []int) {
	for i, r := range text {
		runes, offsets = append(runes, r), append(offsets, i)
	}
	return runes, append(offsets, len(text))
}
