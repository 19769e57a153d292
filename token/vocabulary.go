package token

import (
	"fmt"
	"math"
	"slices"
)

// Bounds of what is read. Real vocabularies have some 300,000 tokens of at
// most a few hundred bytes.
const (
	maxTokens     = 1 << 24
	maxTokenBytes = 1 << 12
	maxMerges     = 1 << 25
)

// kind is what a token is for.
type kind uint8

const (
	ordinary    kind = iota
	controlKind      // special: text never becomes it
	userDefined      // found in a text before anything else is done to it
	unused           // there is no such token
	unknownKind      // stands for what the vocabulary cannot write
	byteKind         // stands for one byte, written <0x0A>
)

// vocabulary is what both file formats come down to.
type vocabulary struct {
	names []string // [n]
	kinds []kind   // [n]
	rules map[int32]added
}

func checkTokens(names []string) error {
	if len(names) == 0 || len(names) > maxTokens {
		return fmt.Errorf("%w: %d tokens, want 1 to %d", ErrVocabulary, len(names), maxTokens)
	}
	for id, name := range names {
		if len(name) > maxTokenBytes {
			return fmt.Errorf("%w: token %d has %d bytes, want at most %d", ErrVocabulary, id, len(name), maxTokenBytes)
		}
	}
	return nil
}

// tokenizer returns a Tokenizer without its model and stages: names, pieces,
// which decode gives, and added tokens.
func (v vocabulary) tokenizer(decode func(id int) string) (*Tokenizer, error) {
	t := &Tokenizer{
		names:   v.names,
		pieces:  make([]string, len(v.names)),
		control: make([]bool, len(v.names)),
		ids:     make(map[string]int32, len(v.names)),
		bos:     -1,
		eos:     -1,
	}
	var words []word
	rules := map[int32]added{}
	for id, name := range v.names {
		k := v.kinds[id]
		if k == unused {
			continue
		}
		if _, twice := t.ids[name]; !twice {
			t.ids[name] = int32(id)
		} else if k == controlKind || k == userDefined {
			return nil, fmt.Errorf("%w: the added token %q has two ids, %d and %d", ErrVocabulary, name, t.ids[name], id)
		}
		t.control[id] = k == controlKind
		t.pieces[id] = decode(id)
		if (k == controlKind || k == userDefined || k == unknownKind) && name != "" {
			rule := v.rules[int32(id)]
			rule.special = k != userDefined
			words, rules[int32(id)] = append(words, word{name, int32(id)}), rule
		}
	}
	t.added = newAddedTokens(words, rules)
	return t, nil
}

// atoms returns the tokens that text may become: ordinary and user-defined
// ones, by their spelling in text, the lowest id where two are spelled alike.
func (v vocabulary) atoms(spelling func(id int) (string, bool), unknown int) (atoms, error) {
	a := atoms{ids: make(map[string]int32, len(v.names)), unknown: none}
	for b := range a.bytes {
		a.bytes[b] = none
	}
	for id := range v.names {
		if v.kinds[id] != ordinary && v.kinds[id] != userDefined {
			continue
		}
		text, ok := spelling(id)
		if _, twice := a.ids[text]; ok && text != "" && !twice {
			a.ids[text] = int32(id)
		}
	}
	if unknown >= len(v.names) || unknown > math.MaxInt32 {
		return a, fmt.Errorf("%w: the unknown token is %d of %d", ErrVocabulary, unknown, len(v.names))
	}
	if unknown >= 0 {
		a.unknown = int32(unknown)
	}
	return a, nil
}

// byteSpelled fills in the tokens of single bytes in a byte-level vocabulary.
func (a *atoms) byteSpelled() {
	for b := range a.bytes {
		if id, ok := a.ids[string([]byte{byte(b)})]; ok {
			a.bytes[b] = id
		}
	}
}

// byteTokens fills in the tokens written <0x00> to <0xFF>.
func (a *atoms) byteTokens(v vocabulary) {
	for id, name := range v.names {
		if b, ok := byteToken(name); ok && v.kinds[id] != unused && a.bytes[b] == none {
			a.bytes[b] = int32(id)
		}
	}
}

// knownEnds are the names of tokens that end a turn or a text.
var knownEnds = []string{
	"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
	"<|return|>", "<|call|>", "<|end|>", "</s>", "<eos>",
}

// secureEnds makes added tokens that are known to end a turn special, whatever
// the file says of them: some say that text may spell them.
func (v vocabulary) secureEnds() {
	for id, name := range v.names {
		if v.kinds[id] == userDefined && slices.Contains(knownEnds, name) {
			v.kinds[id] = controlKind
		}
	}
}

// asWritten reports whether a token's text is its name, as that of added
// tokens is.
func (v vocabulary) asWritten(id int) bool {
	return v.kinds[id] == controlKind || v.kinds[id] == userDefined
}

// merges returns the pairs of tokens that merge, in order of rank. A pair
// whose sides or whose sum the vocabulary lacks is an error; one that would
// make a special token is left out, as text must not become one.
func (v vocabulary) merges(ids map[string]int32, pairs [][2]string) (map[uint64]merge, error) {
	if len(pairs) > maxMerges {
		return nil, fmt.Errorf("%w: %d merges, want at most %d", ErrVocabulary, len(pairs), maxMerges)
	}
	out := make(map[uint64]merge, len(pairs))
	for rank, p := range pairs {
		left, ok1 := ids[p[0]]
		right, ok2 := ids[p[1]]
		into, ok3 := ids[p[0]+p[1]]
		if !ok1 || !ok2 || !ok3 {
			return nil, fmt.Errorf("%w: merge %d of %q and %q: one of them, or the two together, is no token", ErrVocabulary, rank, p[0], p[1])
		}
		if v.kinds[into] == controlKind {
			continue
		}
		key := pairKey(left, right)
		if _, twice := out[key]; !twice {
			out[key] = merge{uint32(rank), into}
		}
	}
	return out, nil
}
