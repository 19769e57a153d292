package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/explain"
)

// What a page holds at most, so that a sequence of 128K keys gives less than 2 MB.
// A number is some 20 bytes of text.
const (
	maxPageSplits = 128     // more processors than this tell nothing new
	maxPieces     = 256     // of keys, whose states the page merges
	maxShown      = 256     // elements of a value
	maxNumbers    = 1 << 15 // of all pieces
	maxBins       = 512     // bars of the strip
	maxTop        = 10      // most weighted keys
	maxTokens     = 4096    // whose text is shown whole
	maxAllSteps   = 40      // of the recurrence, where all are shown
	phraseTokens  = 8       // before and after a key
)

// sameLimit is how far the page's states may lie from these, which were summed in
// another order: relative, a few units in the last place of sums of positive terms.
const sameLimit = 1e-12

// pageBuilder fills a page from a row that has been taken apart.
type pageBuilder struct {
	p      *explain.Page
	x      *explained
	r      explainable
	pieces []string // the keys' text, or nil
	first  int      // number of the first key

	keys       []scored // visible
	begin, end int      // keys that causality and the window leave
}

func (b *pageBuilder) build() {
	if n := len(b.x.States); n > 0 {
		b.begin, b.end = b.x.States[0].Begin, b.x.States[n-1].End
	}
	b.keys = b.r.score(b.begin, b.end)
	b.scores()
	b.data()
	b.states()
	b.recurrence()
}

func (b *pageBuilder) text(pos int) string {
	if b.pieces == nil {
		return ""
	}
	return b.pieces[pos]
}

// key is a visible key beside the row's merged state.
func (b *pageBuilder) key(s scored) explain.Key {
	e := math.Exp(s.score - float64(b.x.M))
	return explain.Key{Pos: s.pos, Text: b.text(s.pos), Score: number(s.score), Exp: number(e), Weight: number(e / float64(b.x.L))}
}

// scores shows what the keys weigh.
func (b *pageBuilder) scores() {
	p, x := b.p, b.x
	p.Keys, p.Visible, p.Min, p.Mean, p.Max = x.Keys, x.Visible, x.MinScore, x.MeanScore, x.MaxScore
	p.HasText = b.pieces != nil
	if len(b.keys) == 0 {
		return
	}
	p.Strip = explain.Bins(b.begin, b.end, maxBins)
	b.tokens()
	bin := 0
	for _, s := range b.keys {
		k := b.key(s)
		for s.pos >= p.Strip[bin].End {
			bin++
		}
		p.Strip[bin].Weight += k.Weight
		if p.Text != nil {
			p.Text[k.Pos-b.begin].Level = explain.Level(k.Weight)
		}
		p.Top = withHeavy(p.Top, k)
	}
	b.rank()
}

// withHeavy is the first maxTop keys in falling order of weight, a further key among
// them if it belongs there. A key without a weight, or without a finite one, does not.
func withHeavy(top []explain.Key, k explain.Key) []explain.Key {
	if !(k.Weight > 0) || len(top) == maxTop && k.Weight <= top[maxTop-1].Weight {
		return top
	}
	at := len(top) // the keys before it with equal weights stay before it
	for at > 0 && top[at-1].Weight < k.Weight {
		at--
	}
	top = slices.Insert(top, at, k)
	return top[:min(len(top), maxTop)]
}

// tokens is the text to shade, where there is not too much of it.
func (b *pageBuilder) tokens() {
	if b.pieces == nil || b.end-b.begin > maxTokens {
		return
	}
	b.p.Text = make([]explain.Token, b.end-b.begin)
	for i := range b.p.Text {
		b.p.Text[i].Text = strings.ReplaceAll(explain.Printable(b.pieces[b.begin+i]), "⏎", "⏎\n")
	}
}

// rank marks the most weighted keys in the text, or shows what stands around them.
func (b *pageBuilder) rank() {
	for i, k := range b.p.Top {
		switch {
		case b.p.Text != nil:
			b.p.Text[k.Pos-b.begin].Rank = i + 1
		case b.pieces != nil:
			b.p.Context = append(b.p.Context, explain.Phrase{
				Pos: k.Pos + b.first, Weight: k.Weight, Text: explain.Printable(k.Text),
				Before: phrase(b.pieces[max(b.begin, k.Pos-phraseTokens):k.Pos]), After: phrase(b.pieces[k.Pos+1 : min(b.end, k.Pos+1+phraseTokens)]),
			})
		}
	}
}

func phrase(pieces []string) string {
	text := ""
	for _, piece := range pieces {
		text += explain.Printable(piece)
	}
	return text
}

// data is what the page computes with. Its pieces are single keys where there are few,
// and else cuts of the splits into equal numbers of pieces, so that the page's borders
// for these splits are the plan's.
func (b *pageBuilder) data() {
	d, x := &b.p.Data, b.x
	d.First, d.Keys, d.Elements = b.first, b.end-b.begin, b.r.valueDim()
	d.Shown = min(d.Elements, maxShown)
	d.Splits = len(x.States)
	d.Pieces, d.States, d.Steps = []explain.Piece{}, []explain.State{}, []explain.State{} // none is a list, too
	pieces, single := b.cuts()
	for _, bin := range pieces {
		visible := b.between(bin.Begin, bin.End)
		state := walk(visible, d.Elements, b.r.value, nil)
		d.Pieces = append(d.Pieces, explain.Piece{Begin: bin.Begin, End: bin.End, Visible: len(visible), State: b.cut(state.M, state.L, numbers(state.O))})
	}
	d.MaxSplits = min(len(d.Pieces), maxPageSplits)
	for _, s := range x.States {
		d.States = append(d.States, b.cut(float64(s.M), float64(s.L), s.O))
	}
	d.Sink = x.Sink
	d.Merged = b.cut(float64(x.M), float64(x.L), x.Out)
	d.MergedLSE, d.DirectLSE, d.DirectOut = x.LSE, x.DirectLSE, x.DirectOut[:d.Shown]
	d.Limit, d.SameLimit, d.Scale = number(x.limit), sameLimit, number(max(1, x.maxV))
	b.p.Difference, b.p.OK = x.Difference, x.OK
	b.p.AllSteps = single && len(b.keys) <= maxAllSteps
}

// cut is a state with as many elements as the page shows.
func (b *pageBuilder) cut(m, l float64, o []number) explain.State {
	return explain.State{M: number(m), L: number(l), O: o[:min(len(o), maxShown)]}
}

// cuts are the borders of the pieces; single says that each is a key.
func (b *pageBuilder) cuts() (pieces []explain.Bin, single bool) {
	most := min(maxPieces, max(maxNumbers/max(b.p.Data.Shown, 1), maxPageSplits))
	if b.end-b.begin <= most {
		return explain.Bins(b.begin, b.end, most), true
	}
	each := most / len(b.x.States)
	for _, s := range b.x.States {
		pieces = append(pieces, explain.Bins(s.Begin, s.End, each)...)
	}
	return pieces, false
}

// between is the visible keys of [begin, end).
func (b *pageBuilder) between(begin, end int) []scored {
	at := func(pos int) int {
		i, _ := slices.BinarySearchFunc(b.keys, pos, func(s scored, pos int) int { return cmp.Compare(s.pos, pos) })
		return i
	}
	return b.keys[at(begin):at(end)]
}

// states shows the splits' states beside the merge.
func (b *pageBuilder) states() {
	for _, s := range b.x.States {
		b.p.States = append(b.p.States, explain.Split{
			Name: explain.KeyRange(s.Begin+b.first, s.End+b.first), M: s.M, L: s.L, O: s.O,
			Rescaled: s.Rescaled, Moved: s.Rescaled * s.L, Weight: s.Weight,
		})
	}
	if b.x.Sink == nil {
		return
	}
	var r stateReport
	r.place(attn.SinkState[float64](*b.r.sinkLogit()), attn.State[float64]{M: float64(b.x.M), L: float64(b.x.L)})
	b.p.Sink = &explain.Split{Name: "sink", M: r.M, L: r.L, Rescaled: r.Rescaled, Moved: r.Rescaled * r.L, Weight: r.Weight}
}

// recurrence walks the whole row and keeps the steps worth showing.
func (b *pageBuilder) recurrence() {
	show := make(map[int]bool)
	for i, k := range b.p.Top {
		show[k.Pos] = i < maxGrowths
	}
	last, m, seen := b.begin-1, math.Inf(-1), 0
	walk(b.keys, b.r.valueDim(), b.r.value, func(key scored, s *attn.State[float64], grew bool) {
		seen++
		if grew = grew && seen > 1; grew {
			b.p.Grew++
		}
		if b.p.AllSteps {
			b.p.Data.Steps = append(b.p.Data.Steps, b.cut(s.M, s.L, numbers(s.O)))
		}
		if b.p.AllSteps || seen <= 3 || seen == len(b.keys) || show[key.pos] || grew && b.p.Grew <= maxGrowths {
			b.p.Steps = append(b.p.Steps, explain.Step{
				Key: key.pos, Text: b.text(key.pos), Score: number(key.score), M: number(s.M), L: number(s.L), O: numbers(s.O), Grew: grew,
				Keep: number(math.Exp(m - s.M)), Add: number(math.Exp(key.score - s.M)), Skipped: key.pos - last - 1,
			})
			last = key.pos
		}
		m = s.M
	})
}
