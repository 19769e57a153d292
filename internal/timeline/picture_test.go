package timeline_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/timeline"
	"github.com/flashdec/flashdec/plan"
)

// drawn is a picture read back.
type drawn struct {
	width, height float64
	texts         []string
	rects         []box
	elements      map[string]int
}

// box is a rectangle and what it tells.
type box struct {
	class               string
	x, y, width, height float64
	told                string
}

// parsePicture reads an SVG, and fails on what is no number, outside the page, or
// not XML.
func parsePicture(t *testing.T, data []byte) drawn {
	t.Helper()
	p := drawn{elements: map[string]int{}}
	d := xml.NewDecoder(bytes.NewReader(data))
	var path []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			path = append(path, x.Name.Local)
			p.elements[x.Name.Local]++
			p.start(t, x)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			switch at := strings.Join(path, "/"); at {
			case "svg/text":
				p.texts = append(p.texts, string(x))
			case "svg/rect/title":
				p.rects[len(p.rects)-1].told += string(x)
			}
		}
	}
}

func (p *drawn) start(t *testing.T, x xml.StartElement) {
	t.Helper()
	at := map[string]float64{}
	class := ""
	for _, a := range x.Attr {
		switch a.Name.Local {
		case "class":
			class = a.Value
		case "x", "y", "width", "height", "x1", "x2", "y1", "y2":
			v, err := strconv.ParseFloat(a.Value, 64)
			if err != nil {
				t.Fatalf("%s %s: %v", x.Name.Local, a.Name.Local, err)
			}
			at[a.Name.Local] = v
		}
	}
	if x.Name.Local == "svg" {
		p.width, p.height = at["width"], at["height"]
	}
	for name, v := range at {
		limit := p.width
		if strings.HasPrefix(name, "y") || name == "height" {
			limit = p.height
		}
		if v < 0 || v > limit {
			t.Errorf("%s %q: %s is %v, want within the page of %v × %v", x.Name.Local, class, name, v, p.width, p.height)
		}
	}
	if x.Name.Local == "rect" {
		p.rects = append(p.rects, box{class: class, x: at["x"], y: at["y"], width: at["width"], height: at["height"]})
	}
}

// tells counts the rectangles that tell something beginning so.
func (p *drawn) tells(prefix string) (n int) {
	for _, r := range p.rects {
		if strings.HasPrefix(r.told, prefix) {
			n++
		}
	}
	return n
}

func draw(t *testing.T, p *timeline.Picture) drawn {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return parsePicture(t, b.Bytes())
}

// TestPictureHoldsWhatItMust: a lane a processor, a rectangle an item and a
// merge, the figures, an axis with its unit, and a legend.
func TestPictureHoldsWhatItMust(t *testing.T) {
	uncut, cut := pair(t)
	p := draw(t, &timeline.Picture{Title: "a step", Notes: []string{"on a machine"}, Lane: "worker", Runs: []timeline.Run{uncut, cut}})
	all := strings.Join(p.texts, "\n")
	for _, want := range []string{
		"a step", "on a machine", "worker 0", "worker 7", "1 split", "the plan's choice",
		"20.0 µs; 8 workers busy 26.5% of the time; 6 items", "µs since the decode began",
		"sequence 0: 20000 keys", "sequence 2: 0 keys", "merge", "waiting", "done after", "times sooner",
		"the plan's choice, drawn 3.", "paler: every other KV head",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no text has %q:\n%s", want, all)
		}
	}
	// The cut run is drawn twice, since it is so much shorter.
	merges := 2 * 2
	items := len(uncut.Plan.Items) + 2*len(cut.Plan.Items)
	if got := p.tells("sequence "); got != items {
		t.Errorf("%d rectangles tell of an item, want %d", got, items)
	}
	if got := p.tells("merge of "); got != merges {
		t.Errorf("%d rectangles tell of a merge, want %d", got, merges)
	}
	if got := p.tells("sequence 0, KV head 1, split 0: keys 0 to 20000; 20.0 µs"); got != 1 {
		t.Errorf("%d rectangles are the longest item, want 1", got)
	}
	for _, r := range p.rects {
		if strings.HasPrefix(r.told, "sequence 1,") && !strings.HasPrefix(r.class, "c1") {
			t.Errorf("an item of sequence 1 has class %q", r.class)
		}
	}
}

// TestLanesDoNotOverlap: items of one lane side by side, as they ran.
func TestLanesDoNotOverlap(t *testing.T) {
	_, cut := pair(t)
	p := draw(t, &timeline.Picture{Lane: "worker", Runs: []timeline.Run{cut}})
	end := map[float64]float64{}
	for _, r := range p.rects {
		if !strings.HasPrefix(r.told, "sequence ") {
			continue
		}
		if r.x < end[r.y]-0.011 { // pixels are written in hundredths
			t.Errorf("an item begins at %v in the lane at %v, where the one before ends at %v", r.x, r.y, end[r.y])
		}
		end[r.y] = r.x + r.width
	}
	if len(end) != 8 {
		t.Errorf("items in %d lanes, want 8", len(end))
	}
}

// TestHostileText: names come from files.
func TestHostileText(t *testing.T) {
	uncut, _ := pair(t)
	const hostile = "a</text><script>alert(1)</script>&\"'\x00\x1b[2J\xff"
	uncut.Name = hostile
	p := draw(t, &timeline.Picture{Title: hostile, Notes: []string{hostile}, Lane: hostile, Runs: []timeline.Run{uncut}})
	if p.elements["script"] != 0 {
		t.Error("a name has become a script")
	}
	if !strings.Contains(strings.Join(p.texts, "\n"), "<script>alert(1)</script>&\"'\uFFFD\uFFFD[2J\uFFFD") {
		t.Errorf("texts %q, want the name as it is but for what XML cannot hold", p.texts)
	}
}

// TestManyItemsStayAFewRectangles: a plan may have a hundred thousand items, and
// each is still counted.
func TestManyItemsStayAFewRectangles(t *testing.T) {
	lens := make([]int, 50)
	for i := range lens {
		lens[i] = 1 << 11
	}
	r := simulated(t, "fine", 4, plan.Config{Seqs: seqs(lens...), NumKVHeads: 1, GroupSize: 1, Width: 4, NumSplits: 1 << 11})
	p := draw(t, &timeline.Picture{Lane: "worker", Runs: []timeline.Run{r}})
	if len(p.rects) > 8000 {
		t.Errorf("%d rectangles for %d items, want some thousands", len(p.rects), len(r.Plan.Items))
	}
	items := 0
	for _, b := range p.rects {
		n := 0
		if _, err := fmt.Sscanf(b.told, "%d items, the first: sequence", &n); err == nil {
			items += n
		} else if strings.HasPrefix(b.told, "sequence ") {
			items++
		}
	}
	if items != len(r.Plan.Items) {
		t.Errorf("rectangles tell of %d items, want %d", items, len(r.Plan.Items))
	}
}

// TestManyColoursStayAFewRectangles: items of two heads in turn, each less than a pixel
// wide, are drawn as one up to that width.
func TestManyColoursStayAFewRectangles(t *testing.T) {
	r := simulated(t, "fine", 1, plan.Config{Seqs: seqs(slices.Repeat([]int{1}, 20_000)...), NumKVHeads: 2, GroupSize: 1, Width: 1, NumSplits: 1})
	if p := draw(t, &timeline.Picture{Lane: "worker", Runs: []timeline.Run{r}}); len(p.rects) > 4000 {
		t.Errorf("%d rectangles for %d items, want some thousands", len(p.rects), len(r.Plan.Items))
	}
}

// TestManySequencesShareAColour: those with the most keys have colours of their
// own, the others one, and the legend says so.
func TestManySequencesShareAColour(t *testing.T) {
	lens := []int{100, 100, 9000, 100, 100, 8000, 100, 100, 100, 100}
	r := simulated(t, "", 2, plan.Config{Seqs: seqs(lens...), NumKVHeads: 1, GroupSize: 1, Width: 2, NumSplits: 1})
	p := draw(t, &timeline.Picture{Lane: "worker", Runs: []timeline.Run{r}})
	all := strings.Join(p.texts, "\n")
	for _, want := range []string{"sequence 2: 9000 keys", "sequence 5: 8000 keys", "the other 3 sequences"} {
		if !strings.Contains(all, want) {
			t.Errorf("the legend lacks %q:\n%s", want, all)
		}
	}
	for _, b := range p.rects {
		switch {
		case strings.HasPrefix(b.told, "sequence 2,") && b.class != "c0",
			strings.HasPrefix(b.told, "sequence 5,") && b.class != "c1",
			strings.HasPrefix(b.told, "sequence 9,") && b.class != "c7":
			t.Errorf("%q has class %s", b.told, b.class)
		}
	}
}
