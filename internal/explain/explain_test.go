package explain

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

func text(t *testing.T, p *Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPolicyAdmitsTheOwnScriptAlone: what stands between the tags is what the hashes
// are of, and nothing else of the page names a place.
func TestPolicyAdmitsTheOwnScriptAlone(t *testing.T) {
	page := text(t, &Page{})
	for _, c := range []struct{ what, pattern, directive string }{
		{"script", `(?s)<script>(.*?)</script>`, "script-src"}, {"style", `(?s)<style>(.*?)</style>`, "style-src"},
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("%d of <%s>, want 1", len(found), c.what)
		}
		if admitted := c.directive + " &#39;" + strings.ReplaceAll(hash(found[0][1]), "+", "&#43;") + "&#39;"; !strings.Contains(page, admitted) {
			t.Errorf("the policy does not say %s", admitted)
		}
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("the policy admits what it does not name")
	}
	if found := regexp.MustCompile(`(?i)(https?://|src=|url\(|@import| style=| on[a-z]+=)[^"]*`).FindAllString(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1); found != nil {
		t.Errorf("the page names %q", found)
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"0.1650": decimal(0.165), "−12.3400": decimal(-12.34), "0.0000": decimal(0), "1.235e−4": decimal(0.00012346), "1.234e7": decimal(12340000),
		"NaN": decimal(Number(math.NaN())), "−∞": decimal(Number(math.Inf(-1))), "∞": tiny(Number(math.Inf(1))),
		"0": tiny(0), "1.1e−16": tiny(1.11e-16), "16.4 %": percent(0.164), "0.020 %": percent(0.0002), "2e−5 %": percent(2e-7), "0.0 %": percent(0),
		" 1.0000 −2.0000": vector([]Number{1, -2}), " 1.0000  1.0000  1.0000  1.0000 …": vector([]Number{1, 1, 1, 1, 1}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLevelsArePowersOfTen(t *testing.T) {
	for weight, want := range map[Number]int{0: 0, 1e-7: 0, 2e-6: 1, 2e-5: 2, 2e-4: 3, 2e-3: 4, 2e-2: 5, 0.2: 6, 1: 6, 1.0000001: 6, Number(math.NaN()): 0} {
		if got := Level(weight); got != want {
			t.Errorf("a weight of %v has shade %d, want %d", weight, got, want)
		}
	}
}

// TestBinsCover: runs are even to one, in order, and leave nothing out.
func TestBinsCover(t *testing.T) {
	for n := range 40 {
		for most := 1; most < 12; most++ {
			bins, next := Bins(7, 7+n, most), 7
			if len(bins) != min(n, most) {
				t.Fatalf("%d positions in %d bins, want %d", n, len(bins), min(n, most))
			}
			for i, b := range bins {
				if size := b.End - b.Begin; b.Begin != next || size < n/most || i > 0 && size > bins[i-1].End-bins[i-1].Begin {
					t.Fatalf("%d positions, at most %d bins: %v", n, most, bins)
				}
				next = b.End
			}
			if next != 7+n {
				t.Fatalf("%d positions, at most %d bins end at %d", n, most, next)
			}
		}
	}
}

// TestPrintableShowsNoControl: what a display would obey (escapes, ends of lines, turns of
// direction, bytes that are no text) has a sign in its place, and a text of any length an end.
func TestPrintableShowsNoControl(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünïcode ⏎":                   "plain ünïcode ⏎",
		"a\nb\tc":                           "a⏎b⇥c",
		"\x1b[31mred\x07":                   "�[31mred�",
		"\u202eright\xff":                   "�right�",
		strings.Repeat("é", longestToken):   strings.Repeat("é", longestToken),
		strings.Repeat("é", longestToken+1): strings.Repeat("é", longestToken) + "…",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
