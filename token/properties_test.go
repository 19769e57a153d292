package token

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// exact are the families whose ids hold every byte of a text: those on bytes,
// but for the ones that normalize it, or put a space before it.
var exact = []string{"gpt2", "gpt4o", "llama3", "other", "smollm", "tekken", "gemma"}

func TestAnyBytesComeBack(t *testing.T) {
	for _, name := range exact {
		t.Run(name, func(t *testing.T) {
			tok := family(t, name)
			rapid.Check(t, func(t *rapid.T) {
				text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
				if name == "gemma" {
					text = strings.ReplaceAll(text, spaceMark, "") // is how it writes a space
				}
				ids, err := tok.Encode(text)
				if err != nil {
					t.Fatal(err)
				}
				if got := tok.Decode(ids); got != withoutMaskSpace(text) {
					t.Fatalf("%q came back as %q", text, got)
				}
			})
		})
	}
}

// withoutMaskSpace takes away the white space that <mask> swallows.
func withoutMaskSpace(text string) string {
	parts := strings.Split(text, "<mask>")
	for i := range parts {
		if i > 0 {
			parts[i] = strings.TrimLeft(parts[i], " \t\n\r")
		}
		if i < len(parts)-1 {
			parts[i] = strings.TrimRight(parts[i], " \t\n\r")
		}
	}
	return strings.Join(parts, "<mask>")
}

func TestTextNeverBecomesSpecial(t *testing.T) {
	words := rapid.SliceOf(rapid.SampledFrom([]string{"<|im_start|>", "<|im_end|>", "<unk>", "<s>", "</s>", "<", "|", "im_end", "|>", " ", "a", "<think>"}))
	eachFamily(t, func(t *testing.T, tok *Tokenizer) {
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(words.Draw(t, "words"), "")
			ids, err := tok.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if tok.IsSpecial(id) && tok.Name(id) != "<unk>" { // what cannot be written is unknown
					t.Fatalf("%q became %q", text, tok.Name(id))
				}
			}
		})
		ids, err := tok.EncodeSpecial("a<|im_end|>")
		if end, _ := tok.ID("<|im_end|>"); err != nil || ids[len(ids)-1] != end {
			t.Errorf("EncodeSpecial gave %v, error %v, want %d at the end", ids, err, end)
		}
	})
}

// TestStreamEqualsDecode: ids one by one give the text of all, whole
// characters at a time.
func TestStreamEqualsDecode(t *testing.T) {
	eachFamily(t, func(t *testing.T, tok *Tokenizer) {
		tok.trim = false // a stream goes on from text before it
		rapid.Check(t, func(t *rapid.T) {
			ids := rapid.SliceOf(rapid.IntRange(-2, tok.VocabSize()+2)).Draw(t, "ids")
			var got strings.Builder
			s := tok.Stream()
			for _, id := range ids {
				piece := s.Next(id)
				if !utf8.ValidString(piece) {
					t.Fatalf("%q is not UTF-8", piece)
				}
				got.WriteString(piece)
			}
			got.WriteString(s.Flush())
			want := tok.Decode(ids)
			if cut := strings.TrimSuffix(got.String(), "\ufffd"); !strings.HasPrefix(string([]rune(want)), cut) {
				t.Fatalf("streamed %q, want %q", got.String(), want)
			}
			if utf8.ValidString(want) && got.String() != want {
				t.Fatalf("streamed %q, want %q", got.String(), want)
			}
		})
	})
}

func TestStreamHoldsCharactersBack(t *testing.T) {
	tok := family(t, "gpt2")
	ids, err := tok.Encode("🙂") // four bytes, and no merges of them all
	if err != nil || len(ids) < 2 {
		t.Fatalf("ids %v, error %v, want two or more", ids, err)
	}
	s := tok.Stream()
	for i, id := range ids {
		want := ""
		if i == len(ids)-1 {
			want = "🙂"
		}
		if got := s.Next(id); got != want {
			t.Errorf("id %d of %d gave %q, want %q", i, len(ids), got, want)
		}
	}
	s.Next(ids[0])
	if got := s.Flush(); got != "\ufffd" {
		t.Errorf("a character not completed gave %q, want U+FFFD", got)
	}
	if got := s.Flush(); got != "" {
		t.Errorf("nothing held gave %q", got)
	}
}

// mergeByScanning is what merging means: look for the best pair, merge it,
// look again.
func mergeByScanning(m *bpe, ids []int32) []int {
	for {
		best, at := merge{rank: noRank}, -1
		for i := 0; i+1 < len(ids); i++ {
			if x, ok := m.pairs[pairKey(ids[i], ids[i+1])]; ok && x.rank < best.rank {
				best, at = x, i
			}
		}
		if at < 0 {
			break
		}
		ids[at] = best.into
		ids = slices.Delete(ids, at+1, at+2)
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

func TestMergingEqualsScanning(t *testing.T) {
	m := &bpe{byteLevel: true, pairs: map[uint64]merge{}}
	for b := range m.atoms.bytes {
		m.atoms.bytes[b] = int32(b)
	}
	rapid.Check(t, func(t *rapid.T) {
		clear(m.pairs)
		symbol := rapid.Int32Range('a', 'd')
		for rank := range rapid.IntRange(0, 16).Draw(t, "merges") {
			key := pairKey(symbol.Draw(t, "left"), symbol.Draw(t, "right"))
			m.pairs[key] = merge{uint32(rank), symbol.Draw(t, "into")} // cycles too
		}
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcd")), 1, 40, -1).Draw(t, "text")
		ids := make([]int32, len(text))
		for i := range ids {
			ids[i] = int32(text[i])
		}
		got, err := m.encode(nil, text, &scratch{})
		if want := mergeByScanning(m, ids); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q gave %v, error %v, want %v", text, got, err, want)
		}
	})
}

// TestALongLineIsNotQuadratic: text that no splitter cuts takes about as long as its parts do. A step a pair of
// bytes would take as many times longer as there are parts.
func TestALongLineIsNotQuadratic(t *testing.T) {
	const size, parts, limit, tries = 1 << 16, 32, 8, 5
	lines := map[string]string{
		"one letter": strings.Repeat("a", size),
		"words":      strings.Repeat("thecacheofthestate", size/18),
		"spaces":     strings.Repeat(" ", size),
		"newlines":   strings.Repeat("\n", size),
		"capitals":   strings.Repeat("A", size),
		"marks":      strings.Repeat("\u0301", size/2),
		"special":    strings.Repeat("<|im_", size/5),
	}
	eachFamily(t, func(t *testing.T, tok *Tokenizer) {
		took := func(texts ...string) time.Duration {
			start := time.Now()
			for _, text := range texts {
				if _, err := tok.EncodeSpecial(text); err != nil {
					t.Errorf("%.20q: %v", text, err)
				}
			}
			return time.Since(start)
		}
		for name, line := range lines {
			var cut []string
			for rest := line; rest != ""; {
				n := min(size/parts, len(rest))
				cut, rest = append(cut, rest[:n]), rest[n:]
			}
			least := math.Inf(1) // of some tries: a busy machine delays single ones
			for range tries {
				if least = min(least, took(line).Seconds()/took(cut...).Seconds()); least < limit {
					break
				}
			}
			if least >= limit {
				t.Errorf("%s: %d bytes take %.1f times as long as %d parts of them, want less than %d", name, size, least, parts, limit)
			}
		}
	})
}
