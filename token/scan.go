package token

import (
	"strings"
	"unicode/utf8"
)

// A scanner returns how long the first piece of text, which is not empty, is.
// Those below are the well-known splitting expressions written by hand: each
// alternative in its order, the first that matches decides.
type scanner func(text string) int

const (
	gpt2Expression   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Expression = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Expression  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Expression = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt4oExpression  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenExpression = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// scanners are the expressions that have a hand-written form.
var scanners = map[string]scanner{
	gpt2Expression:   scanGPT2,
	llama3Expression: wordRule{digits: 3, word: letters, symbol: symbols}.scan,
	qwen2Expression:  wordRule{digits: 1, word: letters, symbol: symbols}.scan,
	qwen35Expression: wordRule{digits: 1, word: marked, symbol: unmarked}.scan,
	gpt4oExpression:  caseRule{digits: 3, contractions: true}.scan,
	tekkenExpression: caseRule{digits: 1}.scan,
}

// scanGPT2 is gpt2Expression.
func scanGPT2(text string) int {
	if n := contraction(text, 0); n > 0 && text[:n] == strings.ToLower(text[:n]) && text[1] < utf8.RuneSelf {
		return n
	}
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	c, n := classAt(text, start)
	for _, s := range [...]set{letters, numbers, symbols} {
		if n > 0 && s.has(c) {
			return s.run(text, start+n)
		}
	}
	return scanSpaces(text)
}

// scanSpaces is \s+(?!\S)|\s+ on a text that begins with white space: a run
// before something else leaves its last character to it.
func scanSpaces(text string) int {
	end := spaces.run(text, 0)
	if end == len(text) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(text[:end])
	if end == last {
		return end
	}
	return end - last
}

// scanLines is \s*[\r\n]+|\s+(?!\S)|\s+ on a text that begins with white
// space: a run with line ends in it ends after the last of them.
func scanLines(text string) int {
	if last := strings.LastIndexAny(text[:spaces.run(text, 0)], "\r\n"); last >= 0 {
		return last + 1
	}
	return scanSpaces(text)
}

// contraction is (?i:'s|'t|'re|'ve|'m|'ll|'d) at text[i:]: its length, 0 if it
// does not match. The long s, ſ, folds to s.
func contraction(text string, i int) int {
	if i+1 >= len(text) || text[i] != '\'' {
		return 0
	}
	switch text[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if i+2 < len(text) && text[i+2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if i+2 < len(text) && text[i+2]|0x20 == 'l' {
			return 3
		}
	}
	if strings.HasPrefix(text[i+1:], "ſ") {
		return 1 + len("ſ")
	}
	return 0
}

// digitRun is \p{N}{1,most} at the beginning of text, 0 if it does not match.
func digitRun(text string, most int) int {
	end := 0
	for range most {
		c, n := classAt(text, end)
		if n == 0 || c != number {
			break
		}
		end += n
	}
	return end
}

// wordRule is the expression of Llama 3 and of Qwen.
type wordRule struct {
	digits       int // numbers are cut into runs of so many
	word, symbol set
}

func (w wordRule) scan(text string) int {
	if n := contraction(text, 0); n > 0 {
		return n
	}
	c, n := classAt(text, 0)
	if leads.has(c) {
		if end := w.word.run(text, n); end > n {
			return end
		}
	}
	if w.word.has(c) {
		return w.word.run(text, n)
	}
	if n := digitRun(text, w.digits); n > 0 {
		return n
	}
	if end := scanSymbols(text, w.symbol); end > 0 {
		return newlines.run(text, end)
	}
	return scanLines(text)
}

// scanSymbols is " ?" and one or more of s, 0 if it does not match.
func scanSymbols(text string, s set) int {
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	if end := s.run(text, start); end > start {
		return end
	}
	return 0
}

// caseRule is the expression of GPT-4o and of Tekken, which cuts words where a
// small letter is followed by a capital one.
type caseRule struct {
	digits       int
	contractions bool // stay with the word they follow
}

func (r caseRule) scan(text string) int {
	if end := scanCased(text); end > 0 {
		if r.contractions {
			end += contraction(text, end)
		}
		return end
	}
	if n := digitRun(text, r.digits); n > 0 {
		return n
	}
	if end := scanSymbols(text, symbols); end > 0 {
		for end < len(text) && (text[end] == '\r' || text[end] == '\n' || text[end] == '/') {
			end++
		}
		return end
	}
	return scanLines(text)
}

// scanCased is the first two alternatives: [^\r\n\p{L}\p{N}]? then U*L+, and
// failing that U+L*, where U and L, uppers and lowers, share what has no case.
func scanCased(text string) int {
	c, n := classAt(text, 0)
	starts := [2]int{n, 0} // after the leading character, and without it
	tries := starts[:]
	if !leads.has(c) {
		tries = starts[1:]
	}
	for _, start := range tries {
		if end := upperThenLower(text, start); end > 0 {
			return end
		}
	}
	for _, start := range tries {
		if end := uppers.run(text, start); end > start {
			return lowers.run(text, end)
		}
	}
	return 0
}

// upperThenLower is U*L+ at text[start:]: where it ends, 0 if it does not match.
func upperThenLower(text string, start int) int {
	end := uppers.run(text, start)
	if after := lowers.run(text, end); after > end {
		return after
	}
	for end > start { // give back capitals until what has no case can be L+
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if lowers.has(unicodeClass(r)) {
			return end
		}
		end -= n
	}
	return 0
}
