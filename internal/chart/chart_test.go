package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
)

// rows are a suite of lengths, measured two ways beside a bare read, the slower one on
// fewer keys where they are many.
func rows(suite string) []bench.Row {
	var all []bench.Row
	for n := 1 << 10; n <= 1<<20; n *= 4 {
		for i, impl := range []string{"flashdec", "torch-fa2"} {
			r := bench.Row{
				Suite: suite, Case: Keys(n) + " <keys> & more", Impl: impl, Len: n, Threads: 2, Device: "Abacus", KVBytes: int64(n) << 10,
				Seconds: float64((i+1)*n) * 1e-8, Ceiling: 2e11,
			}
			r.Rate = float64(r.KVBytes) / r.Seconds
			r.Share = r.Rate / r.Ceiling
			all = append(all, r)
		}
	}
	return all
}

func svg(t *testing.T, rows []bench.Row) string {
	t.Helper()
	var text bytes.Buffer
	if err := Write(&text, "svg", rows); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// texts are those of a picture, which must be well-formed.
func texts(t *testing.T, picture string) (all []string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			all = append(all, string(text))
		}
	}
}

func TestPicturesSayWhatWasMeasured(t *testing.T) {
	for suite, want := range map[string][]string{
		"lengths": {"lengths on Abacus, 2 threads", "flashdec", "torch-fa2", "bare read of the same bytes", "1K", "256K", "1M", "10 µs", "20 ms", "keys", "time of a step"},
		"types":   {"types on Abacus, 2 threads", "flashdec", "torch-fa2", "1K <keys> & more", "1M <keys> & more", "25", "100", "bytes a second, in % of a bare read of the same bytes"},
	} {
		said := texts(t, svg(t, rows(suite)))
		for _, say := range want {
			if !slices.Contains(said, say) {
				t.Errorf("the picture of %s says %q, and not %q", suite, said, say)
			}
		}
	}
}

// TestPicturesOfModels: a panel a model, with tokens a second and what the read would allow.
func TestPicturesOfModels(t *testing.T) {
	all := rows(bench.ModelSuite)
	for i := range all {
		all[i].Model, all[i].WeightBytes, all[i].TokenRate = "bead-8B", 1<<30, 1/(0.01+all[i].Seconds)
	}
	other := slices.Clone(all)
	for i := range other {
		other[i].Model = "bead-70B"
	}
	said := texts(t, svg(t, append(all, other...)))
	for _, say := range []string{
		"bead-8B on Abacus, 2 threads", "bead-70B on Abacus, 2 threads", "flashdec", "bare read of the same bytes", "1K", "1M", "0", "100", "context, tokens", "tokens a second",
	} {
		if !slices.Contains(said, say) {
			t.Errorf("the picture says %q, and not %q", said, say)
		}
	}
	for i := range all {
		all[i].TokenRate = 0
	}
	if err := Write(io.Discard, "svg", all); err == nil {
		t.Error("rows without a rate make a picture")
	}
}

// TestPicturesOfPrompts: tokens a second against a prompt's length, with what multiply-adds alone would allow.
func TestPicturesOfPrompts(t *testing.T) {
	all := rows(bench.PromptSuite)
	for i := range all {
		all[i].Model, all[i].TokenRate, all[i].MultiplyAdds, all[i].Peak = "bead-8B", 100, 1e6*int64(all[i].Len), 2e9
	}
	said := texts(t, svg(t, all))
	for _, say := range []string{"bead-8B on Abacus, 2 threads", "multiply-adds alone", "prompt, tokens", "tokens a second", "2000"} {
		if !slices.Contains(said, say) {
			t.Errorf("the picture says %q, and not %q", said, say)
		}
	}
}

// TestTextTakesItsRoom: every text of an SVG has the width that it was laid out for.
func TestTextTakesItsRoom(t *testing.T) {
	picture := svg(t, rows("types"))
	if n, sized := strings.Count(picture, "<text "), strings.Count(picture, "<text textLength="); n == 0 || n != sized {
		t.Errorf("%d texts, %d with a width", n, sized)
	}
	if strings.Contains(picture, "Serif") {
		t.Error("a text is not in the font that it was measured in")
	}
}

// TestBarsAreShares: a bar is as long as its share, and half the share half as long.
func TestBarsAreShares(t *testing.T) {
	picture := svg(t, rows("types")[:2])
	widths := make(map[string]float64)
	bar := regexp.MustCompile(`<path d="M([\d.]+),[\d.]+L[\d.]+,[\d.]+L([\d.]+),[\d.]+L[\d.]+,[\d.]+Z" style="fill:(#[0-9A-F]+)"`)
	for _, found := range bar.FindAllStringSubmatch(picture, -1) {
		from, err1 := strconv.ParseFloat(found[1], 64)
		to, err2 := strconv.ParseFloat(found[2], 64)
		if err1 != nil || err2 != nil {
			t.Fatal(found)
		}
		widths[found[3]] = to - from // the first of a colour is the legend's box, the last the bar
	}
	ours, theirs := widths["#0072B2"], widths["#009E73"]
	if ours < 20 || ours < 1.98*theirs || ours > 2.02*theirs {
		t.Errorf("bars of %v and %v, want the first twice as long; all: %v", ours, theirs, widths)
	}
}

// TestBarsThatAreCutOffSayWhatTheyReach, and disturbed reads are marked; other pictures
// say nothing of either.
func TestBarsThatAreCutOffSayWhatTheyReach(t *testing.T) {
	all := rows("types")[:2]
	calm := texts(t, svg(t, all))
	all[0].Share, all[0].Spread = 1.31, 0.5
	said := texts(t, svg(t, all))
	for _, say := range []string{"» 131%", "1K <keys> & more ~", "bytes a second, in % of a bare read of the same bytes; ~ a read that was disturbed"} {
		if !slices.Contains(said, say) || slices.Contains(calm, say) {
			t.Errorf("the picture says %q, and %q where nothing is cut off; want %q in the first alone", said, calm, say)
		}
	}
}

// TestTheAxisIsAboveToo: a picture of many bars is long, and read from both ends.
func TestTheAxisIsAboveToo(t *testing.T) {
	n := 0
	for _, text := range texts(t, svg(t, rows("types"))) {
		if text == "75" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("75%% is named %d times, want it below and above", n)
	}
}

// TestShortenedStepsAreNoTimes: a way that ran on fewer keys has no place on the line
// of a length.
func TestShortenedStepsAreNoTimes(t *testing.T) {
	all := rows("lengths")
	for i := range all {
		if all[i].Impl == "torch-fa2" {
			all[i].Note = "1024 keys"
		}
	}
	if with, without := strings.Count(svg(t, rows("lengths")), "stroke:#009E73"), strings.Count(svg(t, all), "stroke:#009E73"); without >= with {
		t.Errorf("%d strokes of a way whose steps were shortened, %d else", without, with)
	}
}

// TestOddRowsDraw: rows that a logarithm has no place for are left out, and none is no
// picture.
func TestOddRowsDraw(t *testing.T) {
	all := rows("lengths")
	for name, spoil := range map[string]func(r *bench.Row){
		"no bytes": func(r *bench.Row) { r.KVBytes = 0 }, "no length": func(r *bench.Row) { r.Len = 0 }, "one length": func(r *bench.Row) { r.Len = 1 },
	} {
		odd := slices.Clone(all)
		for i := range odd {
			if i > 0 || name == "one length" {
				spoil(&odd[i])
			}
		}
		if picture := svg(t, odd); strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("%s: the picture has places that are no numbers", name)
		}
	}
	for i := range all {
		all[i].Len = 0
	}
	if err := Write(io.Discard, "svg", all); err == nil {
		t.Error("rows without a length make a picture")
	}
}

func TestPNG(t *testing.T) {
	var picture bytes.Buffer
	if err := Write(&picture, "png", append(rows("lengths"), rows("types")...)); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&picture)
	if err != nil || image.Bounds().Dx() < 500 || image.Bounds().Dy() < 500 {
		t.Errorf("%v, %v", err, image.Bounds())
	}
	if err := Write(&picture, "gif", rows("types")); err == nil || !strings.Contains(err.Error(), "gif") {
		t.Errorf("a picture in GIF: %v", err)
	}
}

func TestSamePictureTwice(t *testing.T) {
	for _, suite := range []string{"lengths", "types"} {
		first := svg(t, rows(suite))
		if second := svg(t, rows(suite)); first != second {
			t.Errorf("%s: two pictures of the same rows differ", suite)
		}
	}
}
