package token

import (
	"slices"
	"strings"
)

// lexicon finds the tokens that a text begins with, by narrowing a range of
// the sorted tokens a byte at a time.
type lexicon struct {
	words []word
	first [257]int32 // words[first[b]:first[b+1]] begin with byte b
}

type word struct {
	text string // not empty
	id   int32
}

// newLexicon takes ownership of words, whose texts differ and are not empty.
func newLexicon(words []word) lexicon {
	l := lexicon{words: words}
	slices.SortFunc(words, func(a, b word) int { return strings.Compare(a.text, b.text) })
	n := int32(0)
	for b := range 256 {
		l.first[b] = n
		for int(n) < len(words) && words[n].text[0] == byte(b) {
			n++
		}
	}
	l.first[256] = n
	return l
}

// prefixes calls yield with every word that text begins with, the shortest
// first. len(w.text) is how much of text it covers.
func (l *lexicon) prefixes(text string, yield func(w word)) {
	if text == "" {
		return
	}
	lo, hi := l.first[text[0]], l.first[int(text[0])+1]
	for n := 1; lo < hi; n++ {
		if len(l.words[lo].text) == n {
			yield(l.words[lo])
			lo++
		}
		if n == len(text) {
			return
		}
		lo = l.bound(lo, hi, n, int(text[n]))
		hi = l.bound(lo, hi, n, int(text[n])+1)
	}
}

// bound returns the first of words[lo:hi], all longer than n and alike before
// it, whose byte n is at least b.
func (l *lexicon) bound(lo, hi int32, n, b int) int32 {
	for lo < hi {
		if mid := lo + (hi-lo)/2; int(l.words[mid].text[n]) < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// longest returns the longest word that text begins with; its text is empty
// where there is none.
func (l *lexicon) longest(text string) (found word) {
	l.prefixes(text, func(w word) { found = w })
	return found
}
