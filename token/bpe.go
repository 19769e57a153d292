package token

import (
	"fmt"
	"unicode/utf8"
)

// model turns a piece, which no merge crosses, into ids.
type model interface {
	encode(dst []int, piece string, s *scratch) ([]int, error)
}

// bpe merges pairs of tokens in the order of their ranks (Sennrich et al.,
// 2016), beginning from the bytes of a piece or from its characters.
type bpe struct {
	atoms        atoms
	byteLevel    bool // begins from bytes
	pairs        map[uint64]merge
	whole        map[string]int32 // a piece that is a token is taken as it is, whatever its merges; nil if not
	fuseUnknowns bool             // a run of unknown characters is one unknown token
}

type merge struct {
	rank uint32
	into int32
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (m *bpe) pair(_ string, a, b *symbol) (uint32, int32) {
	if found, ok := m.pairs[pairKey(a.id, b.id)]; ok {
		return found.rank, found.into
	}
	return noRank, none
}

func (m *bpe) encode(dst []int, piece string, s *scratch) ([]int, error) {
	if id, ok := m.whole[piece]; ok {
		return append(dst, int(id)), nil
	}
	s.begin()
	var err error
	if m.byteLevel {
		err = m.bytes(piece, s)
	} else {
		err = m.characters(piece, s)
	}
	if err != nil {
		return dst, err
	}
	s.merge(piece, m)
	return s.ids(dst), nil
}

// ids appends the tokens of the merged list.
func (s *scratch) ids(dst []int) []int {
	for i := int32(0); i != none && int(i) < len(s.symbols); i = s.symbols[i].next {
		dst = append(dst, int(s.symbols[i].id))
	}
	return dst
}

func (m *bpe) bytes(piece string, s *scratch) error {
	for i := range len(piece) {
		if id := m.atoms.bytes[piece[i]]; id != none {
			s.append(i, i+1, id)
			continue
		}
		if !m.atoms.byteFallback(replacement) {
			return fmt.Errorf("%w: byte 0x%02X", ErrUnknown, piece[i])
		}
		for j := range len(replacement) {
			s.append(i, i+1, m.atoms.bytes[replacement[j]])
		}
	}
	return nil
}

// replacement is what stands for a byte that a byte-level vocabulary lacks.
// Some lack those of control characters, and those that UTF-8 does not use.
const replacement = string(utf8.RuneError)

func (m *bpe) characters(piece string, s *scratch) error {
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		if id, ok := m.atoms.ids[piece[i:i+n]]; ok {
			s.append(i, i+n, id)
		} else if m.atoms.byteFallback(piece[i : i+n]) {
			for j := i; j < i+n; j++ {
				s.append(j, j+1, m.atoms.bytes[piece[j]])
			}
		} else if m.atoms.unknown == none {
			return fmt.Errorf("%w: %q", ErrUnknown, piece[i:i+n])
		} else if last := len(s.symbols) - 1; m.fuseUnknowns && last >= 0 && s.symbols[last].id == m.atoms.unknown {
			s.symbols[last].end = int32(i + n)
		} else {
			s.append(i, i+n, m.atoms.unknown)
		}
		i += n
	}
	return nil
}

// atoms are the tokens that a text falls back on, character by character.
type atoms struct {
	ids     map[string]int32 // every token that text may become
	bytes   [256]int32       // the token of a byte, none where there is none
	unknown int32            // none where the vocabulary has none
}

// byteFallback reports whether every byte of text has a token.
func (a *atoms) byteFallback(text string) bool {
	for i := range len(text) {
		if a.bytes[text[i]] == none {
			return false
		}
	}
	return true
}

// spell appends the tokens of text's bytes, or the unknown token.
func (a *atoms) spell(dst []int, text string) ([]int, error) {
	switch {
	case a.byteFallback(text):
		for i := range len(text) {
			dst = append(dst, int(a.bytes[text[i]]))
		}
	case a.unknown != none:
		dst = append(dst, int(a.unknown))
	default:
		return dst, fmt.Errorf("%w: %q", ErrUnknown, text)
	}
	return dst, nil
}
