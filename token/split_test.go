package token

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPiecesAreThoseOfHuggingFace: where a text is cut, which the ids of a
// small vocabulary do not always show.
func TestPiecesAreThoseOfHuggingFace(t *testing.T) {
	var texts []string
	testdata(t, "texts.json", &texts)
	var cases []struct {
		Name      string
		Component json.RawMessage
		Lengths   []string
	}
	testdata(t, "splits.json", &cases)
	if len(cases) < 20 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		pre, err := parsePreTokenizer(c.Component)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for i, text := range texts {
			pieces := cutBy(t, pre.stages[0], text)
			var lengths []string
			for _, piece := range pieces {
				lengths = append(lengths, strconv.Itoa(len(piece)))
			}
			if got := strings.Join(lengths, " "); got != c.Lengths[i] {
				t.Errorf("%s: %q\n got %s: %q\nwant %s", c.Name, text, got, pieces, c.Lengths[i])
			}
		}
	}
}

func cutBy(t interface{ Fatal(...any) }, s stage, text string) []string {
	pieces, err := s.split(nil, text, place{first: true, deadline: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

// TestScannersEqualTheirExpressions: by hand and by regexp2, on texts of what
// the expressions tell apart.
func TestScannersEqualTheirExpressions(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("'stTrReEvVlLmMdDaA \t\r\n\u00a0\u3000/.-€🙂é\u0301\u0302ǅʰªº你1½²٣_\x00\ufffd")))
	for source, scan := range scanners {
		slow, err := compile(source)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := text.Draw(t, "text")
			got := strings.Join(cutBy(t, scan, text), "|")
			want := strings.Join(cutBy(t, cutter{find: slow, then: isolated}, text), "|")
			if got != want {
				t.Fatalf("%s\n%q is cut into %q, want %q", source, text, got, want)
			}
		})
	}
}

// TestASpecialTokenHidesWhatIsInside: text that spells one is characters, and
// no added token is looked for in it.
func TestASpecialTokenHidesWhatIsInside(t *testing.T) {
	tok, err := FromTokenizerJSON([]byte(bpeFile(`{"<": 0, ">": 1, "x": 2}`, `[]`,
		`, "added_tokens": [{"id": 3, "content": "<x>", "special": true}, {"id": 4, "content": "x>"}]`)))
	if err != nil {
		t.Fatal(err)
	}
	compareIDs(t, "Encode", "<x>x>", tok.Encode, []int{0, 2, 1, 4})
	compareIDs(t, "EncodeSpecial", "<x>x>", tok.EncodeSpecial, []int{3, 4})
}
