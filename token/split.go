package token

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// stage is a step of pre-tokenization: it cuts a piece into pieces, which it
// may change.
type stage interface {
	split(dst []string, piece string, at place) ([]string, error)
}

// place is where in an encoding a piece stands.
type place struct {
	first    bool      // it begins the text
	deadline time.Time // of the encoding, which backtracking must not outlast
}

// split cuts the piece where the scanner says.
func (s scanner) split(dst []string, piece string, _ place) ([]string, error) {
	for piece != "" {
		n := s(piece)
		dst, piece = append(dst, piece[:n]), piece[n:]
	}
	return dst, nil
}

// digits cuts numbers out of a text: each by itself, or each run of them.
type digits struct{ individual bool }

func (d digits) split(dst []string, piece string, _ place) ([]string, error) {
	start := 0
	for i := 0; i < len(piece); {
		r, n := utf8.DecodeRuneInString(piece[i:])
		if !unicode.IsNumber(r) {
			i += n
			continue
		}
		if i > start {
			dst = append(dst, piece[start:i])
		}
		end := i + n
		if !d.individual {
			end = numbers.run(piece, end)
		}
		dst = append(dst, piece[i:end])
		start, i = end, end
	}
	if start < len(piece) {
		dst = append(dst, piece[start:])
	}
	return dst, nil
}

// spacePrefix puts a space before a piece that does not begin with one.
type spacePrefix struct{}

func (spacePrefix) split(dst []string, piece string, _ place) ([]string, error) {
	if !strings.HasPrefix(piece, " ") {
		piece = " " + piece
	}
	return append(dst, piece), nil
}

// metaspace writes spaces as mark, puts one before a text, and cuts before
// each mark.
type metaspace struct {
	mark   string
	prefix string // "always", "first": at the beginning of the text alone, or "never"
	cut    bool
}

func (m metaspace) split(dst []string, piece string, at place) ([]string, error) {
	piece = strings.ReplaceAll(piece, " ", m.mark)
	if (m.prefix == "always" || m.prefix == "first" && at.first) && !strings.HasPrefix(piece, m.mark) {
		piece = m.mark + piece
	}
	for m.cut {
		_, size := utf8.DecodeRuneInString(piece)
		next := strings.Index(piece[min(size, len(piece)):], m.mark)
		if next < 0 {
			break
		}
		dst, piece = append(dst, piece[:size+next]), piece[size+next:]
	}
	return append(dst, piece), nil
}

// behavior is what becomes of the matches of a pattern.
type behavior string

const (
	removed      behavior = "Removed"
	isolated     behavior = "Isolated"
	withPrevious behavior = "MergedWithPrevious"
	withNext     behavior = "MergedWithNext"
	contiguous   behavior = "Contiguous" // neighbouring matches are one piece
)

// cutter cuts a piece at the matches of a pattern.
type cutter struct {
	find   finder
	invert bool // what lies between the matches counts as the matches
	then   behavior
}

// finder calls yield with the borders of each match, from left to right.
type finder interface {
	matches(text string, deadline time.Time, yield func(start, end int)) error
}

// span is a stretch of a piece.
type span struct {
	start, end int
	match      bool
}

func (c cutter) split(dst []string, piece string, where place) ([]string, error) {
	var spans []span
	at := 0
	add := func(start, end int, match bool) {
		if start < end {
			spans = append(spans, span{start, end, match != c.invert})
		}
	}
	err := c.find.matches(piece, where.deadline, func(start, end int) {
		add(at, start, false)
		add(start, end, true)
		at = end
	})
	if err != nil {
		return dst, err
	}
	add(at, len(piece), false)
	for _, s := range c.then.join(spans) {
		if !s.match || c.then != removed {
			dst = append(dst, piece[s.start:s.end])
		}
	}
	return dst, nil
}

// join merges spans, in place, as the behavior says.
func (b behavior) join(spans []span) []span {
	out := spans[:0]
	for _, s := range spans {
		last := len(out) - 1
		if last >= 0 && (b == withPrevious && s.match && !out[last].match ||
			b == withNext && !s.match && out[last].match ||
			b == contiguous && s.match == out[last].match) {
			out[last].end = s.end
			out[last].match = b == contiguous && s.match || b == withPrevious
			continue
		}
		out = append(out, s)
	}
	return out
}

// literal finds a string.
type literal string

func (l literal) matches(text string, _ time.Time, yield func(start, end int)) error {
	for at := 0; ; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			return nil
		}
		yield(at+i, at+i+len(l))
		at += i + len(l)
	}
}
