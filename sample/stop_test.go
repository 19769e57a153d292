package sample

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustStop(t testing.TB, stops ...string) *Stop {
	t.Helper()
	s, err := NewStop(stops...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStopCutsWhereTheStringBegins(t *testing.T) {
	for _, c := range []struct {
		name   string
		stops  []string
		pieces []string
		want   string // what is shown a piece, parted by |; the flush comes last
		found  string
	}{
		{"none", nil, []string{"ab", "c"}, "ab|c|", ""},
		{"inside a piece", []string{"b"}, []string{"abc", "d"}, "a||", "b"},
		{"over pieces", []string{"\n\n"}, []string{"a\n", "\nb"}, "a||", "\n\n"},
		{"a beginning that comes to nothing", []string{"END"}, []string{"aEN", "x"}, "a|ENx|", ""},
		{"a beginning at the end", []string{"END"}, []string{"aEN"}, "a|EN", ""},
		{"a beginning inside a beginning", []string{"aab"}, []string{"aa", "aa", "b"}, "|aa||", "aab"},
		{"the one that ends first", []string{"abcd", "bc"}, []string{"abcd"}, "a|", "bc"},
		{"the longest that ends there", []string{"c", "abc"}, []string{"xabc"}, "x|", "abc"},
		{"the longest, given last", []string{"abc", "c"}, []string{"xabc"}, "x|", "abc"},
		{"a border inside the string", []string{"aabaaac"}, []string{"aabaaabaaac"}, "aaba|", "aabaaac"},
		{"a character of several bytes", []string{"终止"}, []string{"好终", "止"}, "好||", "终止"},
		{"one byte in common", []string{"é"}, []string{"ãé"}, "ã|", "é"},
	} {
		s := mustStop(t, c.stops...)
		var shown []string
		for _, piece := range c.pieces {
			text, _ := s.Write(piece)
			shown = append(shown, text)
		}
		if got := strings.Join(append(shown, s.Flush()), "|"); got != c.want || s.Found() != c.found {
			t.Errorf("%s: shown %q, found %q; want %q, %q", c.name, got, s.Found(), c.want, c.found)
		}
	}
}

func TestStopStringsAreChecked(t *testing.T) {
	for _, bad := range []string{"", "\xff"} {
		if _, err := NewStop("ok", bad); !errors.Is(err, ErrStop) {
			t.Errorf("%q: error %v, want ErrStop", bad, err)
		}
	}
}

// firstStop is the meaning of Stop on a whole text: the cut, and what was found.
func firstStop(text string, stops []string) (string, string) {
	for end := 1; end <= len(text); end++ {
		found := ""
		for _, s := range stops {
			if strings.HasSuffix(text[:end], s) && len(s) > len(found) {
				found = s
			}
		}
		if found != "" {
			return text[:end-len(found)], found
		}
	}
	return text, ""
}

func TestPiecesDoNotMatterToStop(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 1, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(letters, 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 5, -1), 0, 12).Draw(t, "pieces")
		s, err := NewStop(stops...)
		if err != nil {
			t.Fatal(err)
		}
		want, found := firstStop(strings.Join(pieces, ""), stops)
		var got strings.Builder
		for _, piece := range pieces {
			text, stopped := s.Write(piece)
			got.WriteString(text)
			if !strings.HasPrefix(want, got.String()) {
				t.Fatalf("showed %q, which is no part of %q", got.String(), want)
			}
			if stopped != (s.Found() != "") {
				t.Fatalf("stopped is %v, found %q", stopped, s.Found())
			}
		}
		got.WriteString(s.Flush())
		if got.String() != want || s.Found() != found {
			t.Fatalf("%q to %q, found %q; want %q, %q", pieces, got.String(), s.Found(), want, found)
		}
	})
}

// TestHeldTextIsNoLongerThanNeeded: what is held back could begin a stop string.
func TestHeldTextIsNoLongerThanNeeded(t *testing.T) {
	s := mustStop(t, "stop")
	text, _ := s.Write("a stroll to st")
	if text != "a stroll to " {
		t.Errorf("shown %q, want all but %q", text, "st")
	}
}
