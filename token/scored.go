package token

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// scored is SentencePiece's BPE (Kudo and Richardson, 2018): neighbours merge
// where what they spell together is a token, the best score first.
type scored struct {
	atoms   atoms
	ranks   []uint32 // [vocabSize], 0 for the best score; equal scores have equal ranks
	longest int      // bytes of the longest token
}

func newScored(a atoms, scores []float32) (*scored, error) {
	m := &scored{atoms: a, ranks: make([]uint32, len(scores))}
	order := make([]int, len(scores))
	for i, x := range scores {
		if math.IsNaN(float64(x)) {
			return nil, fmt.Errorf("%w: the score of token %d is NaN", ErrVocabulary, i)
		}
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	for i := 1; i < len(order); i++ {
		m.ranks[order[i]] = m.ranks[order[i-1]]
		if scores[order[i]] != scores[order[i-1]] {
			m.ranks[order[i]]++
		}
	}
	for text := range a.ids {
		m.longest = max(m.longest, len(text))
	}
	if len(a.ids) == 0 {
		return nil, fmt.Errorf("%w: no token that text can become", ErrVocabulary)
	}
	return m, nil
}

func (m *scored) pair(piece string, a, b *symbol) (uint32, int32) {
	if int(b.end-a.start) > m.longest {
		return noRank, none
	}
	if id, ok := m.atoms.ids[piece[a.start:b.end]]; ok {
		return m.ranks[id], id
	}
	return noRank, none
}

func (m *scored) encode(dst []int, piece string, s *scratch) ([]int, error) {
	s.begin()
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		id, ok := m.atoms.ids[piece[i:i+n]]
		if !ok {
			id = none
		}
		s.append(i, i+n, id)
		i += n
	}
	s.merge(piece, m)
	var err error
	for i := int32(0); i != none && int(i) < len(s.symbols); i = s.symbols[i].next {
		x := &s.symbols[i]
		if x.id != none {
			dst = append(dst, int(x.id))
		} else if dst, err = m.atoms.spell(dst, piece[x.start:x.end]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
