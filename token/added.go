package token

import (
	"unicode"
	"unicode/utf8"
)

// added is a token that is found in a text before anything else is done to it.
type added struct {
	special     bool // a control token, which only EncodeSpecial reads
	left, right bool // takes the white space on that side with it
	wholeWord   bool // not inside a word
}

// addedTokens finds added tokens: at each place the longest.
type addedTokens struct {
	words lexicon
	rules map[int32]added
	first [256]bool // whether a word begins with the byte
}

func newAddedTokens(words []word, rules map[int32]added) addedTokens {
	a := addedTokens{words: newLexicon(words), rules: rules}
	for _, w := range words {
		a.first[w.text[0]] = true
	}
	return a
}

// next finds the first added token in text at or after from, and the borders
// of what it takes; ok is false where there is none. Special ones are passed
// over, but hide what lies inside them, unless special is true.
func (a *addedTokens) next(text string, from int, special bool) (id int32, start, end int, ok bool) {
	for i := from; i < len(text); i++ {
		if !a.first[text[i]] {
			continue
		}
		w := a.words.longest(text[i:])
		if w.text == "" {
			continue
		}
		start, end = i, i+len(w.text)
		i = end - 1
		rule := a.rules[w.id]
		if rule.special && !special || rule.wholeWord && insideWord(text, start, end) {
			continue
		}
		for rule.left && start > from {
			r, n := utf8.DecodeLastRuneInString(text[from:start])
			if !unicode.IsSpace(r) {
				break
			}
			start -= n
		}
		if rule.right {
			end = spaces.run(text, end)
		}
		return w.id, start, end, true
	}
	return none, 0, 0, false
}

func insideWord(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return start > 0 && inWord(before) || end < len(text) && inWord(after)
}

// inWord is \w of Unicode's UTS 18.
func inWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
