package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/flashdec/flashdec/internal/simd"
)

// attention is a key that the newest query of the first sequence gave much weight.
type attention struct {
	Position   int     `json:"position"`
	Piece      *string `json:"piece,omitempty"` // the token's text, where the file has it
	Weight     float64 `json:"weight"`          // mean over the query heads
	Head       int     `json:"head"`            // the query head that gave it the most
	HeadWeight float64 `json:"head_weight"`
}

// mostShown is how many keys run shows.
const mostShown = 10

// sane bounds a weight, which is at most 1 but for rounding. A result that is wrong
// or NaN gives others, which say nothing.
const sane = 1.01

// lookUp is how many keys are weighed between looks at the context.
const lookUp = 1024

// newest is the newest query of the first sequence, of which run shows what it attends
// to.
type newest struct {
	q   []float32 // [NumHeads, KeyDim]
	lse []float32 // [NumHeads]
}

// see copies what a chunk has of it.
func (n *newest) see(c *decodeCase, got *decoded) {
	if query := c.queries - 1; got.seqs > 0 && got.seq == 0 && query >= got.query && query < got.query+got.queries {
		p := piece{0, 1, query, 1}
		n.q = slices.Clone(c.rowsIn(got.q, got.piece, p, c.shape.KeyDim))
		n.lse = slices.Clone(c.rowsIn(got.LSE, got.piece, p, 1))
	}
}

// mostAttended is the keys with the most weight, exp(s − lse), the highest first.
func (c *decodeCase) mostAttended(ctx context.Context, n *newest, from source, threads int) ([]attention, error) {
	if n.q == nil {
		return []attention{}, nil
	}
	all := make([]attention, c.lens[0])
	var mu sync.Mutex
	err := c.eachPart(ctx, threads, func(p part) error {
		if p.seq != 0 {
			return nil
		}
		for _, seen := range c.weigh(ctx, p, n, from) {
			mu.Lock()
			all[seen.Position].take(seen)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Position = i
		all[i].Weight /= float64(c.shape.NumHeads)
	}
	most := slices.DeleteFunc(all, func(a attention) bool { return !(a.Weight > 0 && a.Weight <= sane) })
	slices.SortStableFunc(most, func(a, b attention) int { return cmp.Compare(b.Weight, a.Weight) })
	most = slices.Clone(most[:min(mostShown, len(most))])
	for i := range most {
		if c.pieces != nil {
			most[i].Piece = &c.pieces[most[i].Position]
		}
	}
	return most, nil
}

// whyNoAttention says why there is no key to show, "" where nothing has been asked for.
func (c *decodeCase) whyNoAttention(n *newest) string {
	if n.q == nil {
		return ""
	}
	who, query := c.newestQuery(), c.queries-1
	sees := false
	for pos := range c.lens[0] {
		sees = sees || c.options.Sees(0, c.lens[0], c.queries, query, pos)
	}
	odd := 0
	for _, lse := range n.lse {
		if !simd.Finite(lse) {
			odd++
		}
	}
	switch {
	case !sees:
		return who + " sees no key: there are none to show."
	case odd > 0:
		return fmt.Sprintf("%s has an LSE that is no finite number in %d of %s: there are no weights of keys to show.", who, odd, count(c.shape.NumHeads, "head"))
	}
	return who + " gives no key a weight above 0 and up to 1: there are none to show."
}

// newestQuery names the query that run shows.
func (c *decodeCase) newestQuery() string {
	if c.seqs > 1 {
		return "The newest query of sequence 0"
	}
	return "The newest query"
}

// take adds what one head gave. Of heads that gave equally much the first is named,
// whichever came first here.
func (a *attention) take(b attention) {
	a.Weight += b.Weight
	if b.HeadWeight > a.HeadWeight || b.HeadWeight == a.HeadWeight && b.Head < a.Head {
		a.Head, a.HeadWeight = b.Head, b.HeadWeight
	}
}

// weigh is the weights that one part's newest query gave, summed over the heads
// of its group; of some keys only when ctx is done.
func (c *decodeCase) weigh(ctx context.Context, p part, n *newest, from source) []attention {
	keys, group, o := from(p), c.shape.GroupSize(), c.partOptions(p)
	scale, length, query := o.ScaleFor(c.shape.KeyDim), c.lens[p.seq], c.queries-1
	first := p.head * group // row of the group
	q := n.q[first*c.shape.KeyDim:]
	key := make([]float32, c.shape.KeyDim)
	var given []attention
	for pos := range length {
		if pos%lookUp == 0 && ctx.Err() != nil {
			break
		}
		if !o.Sees(p.seq, length, c.queries, query, pos) {
			continue
		}
		keys.Key(key, 0, pos)
		a := attention{Position: pos}
		for h := range group {
			qk := 0.0
			for d, x := range key {
				qk += float64(q[h*c.shape.KeyDim+d]) * float64(x)
			}
			w := math.Exp(o.Score(qk, scale, h, pos-(length-c.queries+query)) - float64(n.lse[first+h]))
			a.Weight += w
			if w > a.HeadWeight {
				a.Head, a.HeadWeight = p.head*group+h, w
			}
		}
		given = append(given, a)
	}
	return given
}

// printAttention shows the keys that got the most weight, in their context.
func printAttention(t *terminal, c *decodeCase, most []attention) {
	if len(most) == 0 {
		return
	}
	total := 0.0
	for _, a := range most {
		total += a.Weight
	}
	t.printf("\n%s\n\n", c.attentionTitle(len(most), total))
	table := newTable("weight", "", "key", "top head")
	if c.pieces != nil {
		table = newTable("weight", "", "key", "top head", "token in its place")
	}
	for _, a := range most {
		cells := row(fmt.Sprintf("%6s", percent(a.Weight)), share(a.Weight/most[0].Weight, 10), a.Position, fmt.Sprintf("%d: %5s", a.Head, percent(a.HeadWeight)))
		if c.pieces != nil {
			cells = append(cells, inContext(c.pieces, a.Position, c.lens[0]))
		}
		table.AppendRow(cells)
	}
	t.printf("%s\n", render(table))
}

// attentionTitle says whose weight it is, and how much of it is shown.
func (c *decodeCase) attentionTitle(shown int, total float64) string {
	who := c.newestQuery()
	if c.pieces != nil {
		who = fmt.Sprintf("The newest token, “%s”,", clip(c.pieces[c.lens[0]-1], longestPiece))
	}
	return fold(fmt.Sprintf("%s gives %s of its weight (the mean of %s) to %s:",
		who, percent(total), count(c.shape.NumHeads, "head"), count(shown, "key")), 0)
}

// inContext is a token between the text before and after it, cut to a column.
func inContext(pieces []string, pos, length int) string {
	const before, token, after = 18, 16, 14
	left := fit(backwards(pieces[:pos]), before)
	slices.Reverse(left)
	right := fit(forwards(pieces[pos+1:length]), after)
	padding := strings.Repeat(" ", before-min(before, text.StringWidth(string(left))))
	return padding + string(left) + "[" + clip(pieces[pos], token) + "]" + string(right)
}
