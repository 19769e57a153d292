package token

import (
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes a stretch of text, between added tokens, before it is cut.
type normalizer interface {
	normalize(text string, deadline time.Time) (string, error)
}

// form is a Unicode normalization form. Bytes that are no UTF-8 stay.
type form norm.Form

func (f form) normalize(text string, _ time.Time) (string, error) {
	return norm.Form(f).String(text), nil
}

// prepend puts a string before a text that is not empty.
type prepend string

func (p prepend) normalize(text string, _ time.Time) (string, error) { return string(p) + text, nil }

// replace puts one string for the matches of a pattern.
type replace struct {
	find finder
	with string
}

func (r replace) normalize(text string, deadline time.Time) (string, error) {
	var out strings.Builder
	at, limit := 0, maxGrowth*len(text)+len(r.with)
	overflow := false
	err := r.find.matches(text, deadline, func(start, end int) {
		if out.Len() > limit {
			overflow = true
			return
		}
		out.WriteString(text[at:start])
		out.WriteString(r.with)
		at = end
	})
	if overflow {
		err = errGrowth
	}
	if err != nil {
		return "", err
	}
	out.WriteString(text[at:])
	return out.String(), nil
}
