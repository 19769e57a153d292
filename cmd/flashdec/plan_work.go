package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/explain"
	"github.com/flashdec/flashdec/plan"
)

// workKind is the units that are cut alike.
type workKind struct {
	Begin   int   `json:"begin"` // the first key
	End     int   `json:"end"`   // one more than the last
	Splits  int   `json:"splits"`
	Queries int   `json:"queries"`
	Units   int   `json:"units"`
	Seqs    []int `json:"seqs"` // in order, each once
}

// workKinds groups a plan's units, the most keys first.
func workKinds(p *plan.Plan) []workKind {
	type cut struct{ begin, end, splits, queries int }
	index := map[cut]int{}
	kinds := []workKind{}
	for _, u := range p.Units {
		key := cut{u.Begin, u.End, u.NumSplits, u.NumQueries}
		i, seen := index[key]
		if !seen {
			i = len(kinds)
			index[key] = i
			kinds = append(kinds, workKind{Begin: u.Begin, End: u.End, Splits: u.NumSplits, Queries: u.NumQueries})
		}
		k := &kinds[i]
		k.Units++
		if n := len(k.Seqs); n == 0 || k.Seqs[n-1] != u.Seq {
			k.Seqs = append(k.Seqs, u.Seq)
		}
	}
	slices.SortStableFunc(kinds, func(a, b workKind) int { return cmp.Compare(b.End-b.Begin, a.End-a.Begin) })
	return kinds
}

func (k *workKind) keysASplit() string {
	if k.Splits == 0 {
		return "none"
	}
	keys := k.End - k.Begin
	if keys%k.Splits == 0 {
		return fmt.Sprint(keys / k.Splits)
	}
	return fmt.Sprintf("about %d", keys/k.Splits)
}

// keyRange names the keys, the first and the last.
func (k *workKind) keyRange() string {
	if k.Begin == k.End {
		return "none"
	}
	return explain.KeyRange(k.Begin, k.End)
}

// sequences lists the sequences as ranges, as far as a column holds them.
func (k *workKind) sequences() string {
	const most = 14
	var b strings.Builder
	for i := 0; i < len(k.Seqs); {
		j := i
		for j+1 < len(k.Seqs) && k.Seqs[j+1] == k.Seqs[j]+1 {
			j++
		}
		term := fmt.Sprint(k.Seqs[i])
		if j > i {
			term = fmt.Sprintf("%d–%d", k.Seqs[i], k.Seqs[j])
		}
		if b.Len() > 0 && b.Len()+len(term) > most {
			return fmt.Sprintf("%s … (%d)", &b, len(k.Seqs))
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(term)
		i = j + 1
	}
	return b.String()
}

// processor is one worker's share of a plan, when all are equally fast.
type processor struct {
	Load  int `json:"load"` // products of a query row with a key, a key's own bytes counted as some
	Keys  int `json:"keys"`
	Items int `json:"items"`
}

// printProcessors shows each processor's load: a line each where they are few,
// a character each where they are many.
func (r *planReport) printProcessors(t *terminal) {
	if r.MaxLoad == 0 {
		t.printf("\nNo sequence has a key to read: there is nothing to do.\n")
		return
	}
	if r.Width <= maxBars {
		t.printf("\nprocessor      keys  load\n")
		for i, p := range r.Processors {
			t.printf("%9d  %8d  %s %s\n", i, p.Keys, share(float64(p.Load)/float64(r.MaxLoad), 36), count(p.Items, "item"))
		}
		return
	}
	t.printf("\nthe load of each of %d processors, █ being the highest:\n", r.Width)
	const aLine, lines = 66, 8
	levels := []rune(" ▁▂▃▄▅▆▇█")
	for first := 0; first < r.Width; first += aLine {
		if first == aLine*lines {
			t.printf("  … and %d more\n", r.Width-first)
			return
		}
		t.printf("  ")
		for _, p := range r.Processors[first:min(first+aLine, r.Width)] {
			// Any load at all shows, and only the full one is full.
			t.printf("%c", levels[int(math.Ceil(float64(p.Load)/float64(r.MaxLoad)*float64(len(levels)-1)))])
		}
		t.printf("\n")
	}
}
