package token

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram is SentencePiece's unigram model (Kudo, 2018): the tokens whose
// scores, logarithms of probabilities, have the largest sum.
type unigram struct {
	atoms        atoms
	words        lexicon
	scores       []float64 // [vocabSize], natural log
	unknownScore float64   // of a character that no token covers
}

// unknownPenalty below the worst score is what an unknown character costs.
const unknownPenalty = 10

func newUnigram(a atoms, scores []float64) (*unigram, error) {
	if len(a.ids) == 0 {
		return nil, fmt.Errorf("%w: no token that text can become", ErrVocabulary)
	}
	m := &unigram{atoms: a, scores: scores, unknownScore: math.Inf(1)}
	words := make([]word, 0, len(a.ids))
	for text, id := range a.ids {
		words = append(words, word{text, id})
	}
	m.words = newLexicon(words)
	for i, x := range scores {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%w: the score of token %d is %v, want a finite number", ErrVocabulary, i, x)
		}
		m.unknownScore = min(m.unknownScore, x-unknownPenalty)
	}
	return m, nil
}

// step is the best way to a place in the text: its score, and the token and
// the place before it.
type step struct {
	score float64
	from  int32
	id    int32 // none for an unknown character
}

func (m *unigram) encode(dst []int, piece string, _ *scratch) ([]int, error) {
	path, err := m.best(piece)
	if err != nil {
		return dst, err
	}
	for i := 0; i < len(path); i++ {
		if path[i].id != none {
			dst = append(dst, int(path[i].id))
			continue
		}
		start := path[i].from
		end := len(piece)
		for ; i+1 < len(path) && path[i+1].id == none; i++ {
		}
		if i+1 < len(path) {
			end = int(path[i+1].from)
		}
		if dst, err = m.atoms.spell(dst, piece[start:end]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// best returns the steps of the best path through piece (Viterbi, 1967).
func (m *unigram) best(piece string) ([]step, error) {
	at := make([]step, len(piece)+1)
	for i := range at {
		at[i].score = math.Inf(-1)
	}
	at[0].score = 0
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		covered := false
		m.words.prefixes(piece[i:], func(w word) {
			covered = covered || len(w.text) == n
			relax(at, i, i+len(w.text), at[i].score+m.scores[w.id], w.id)
		})
		if !covered {
			relax(at, i, i+n, at[i].score+m.unknownScore, none)
		}
		i += n
	}
	var path []step
	for i := len(piece); i > 0; i = int(at[i].from) {
		if math.IsInf(at[i].score, -1) {
			return nil, errors.New("token: no path through the text")
		}
		path = append(path, at[i])
	}
	slices.Reverse(path)
	return path, nil
}

func relax(at []step, from, to int, score float64, id int32) {
	if score > at[to].score {
		at[to] = step{score: score, from: int32(from), id: id}
	}
}
