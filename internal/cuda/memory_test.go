package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestStepsFitTheirMemory: works, counters and partial states of any batch of up to
// 1024 sequences take at most 64 MB, as an H200 plans them.
func TestStepsFitTheirMemory(t *testing.T) {
	const most = 64 << 20
	rng := rand.New(rand.NewPCG(6, 6))
	pick := func(xs ...int) int { return xs[rng.IntN(len(xs))] }
	largest := 0
	for i := range 300 {
		cfg := plan.Config{
			NumKVHeads: pick(1, 2, 3, 4, 5, 8, 16, 32), GroupSize: pick(1, 2, 4, 7, 8, 16),
			Width: 128, QueryTile: maxRows, StartKeys: startKeys, Invariant: i%3 == 0,
		}
		queries, longest := pick(1, 1, 1, 2, 4), pick(300, 5000, 131072, 1<<20)
		for range pick(1, 2, 3, 17, 64, 129, 1000, 1024) {
			cfg.Seqs = append(cfg.Seqs, plan.Seq{Len: 1 + rng.IntN(longest), NumQueries: queries})
		}
		p, err := plan.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		dim := pick(64, 128, 256)
		bytes := bytesOf(p, dim)
		largest = max(largest, bytes)
		if bytes > most {
			t.Errorf("%d sequences of up to %d keys and %d queries, %d×%d heads, dim %d: %d bytes, want at most %d",
				len(cfg.Seqs), longest, queries, cfg.NumKVHeads, cfg.GroupSize, dim, bytes, most)
		}
	}
	t.Logf("at most %d bytes", largest)
}

// stepBytes is what a step takes of the device's memory, beside page tables.
func bytesOf(p *plan.Plan, valueDim int) int {
	c := StepConfig{Plan: p, Options: &attn.Options{}, PageSize: 16, Seqs: make([]kv.Table, len(p.Config.Seqs))}
	for i, s := range p.Config.Seqs {
		c.Seqs[i] = kv.Table{Len: s.Len, Pages: make([]kv.PageID, tiles(s.Len, 16))}
	}
	rows, floats := rowsPerSet, rowsPerSet*(valueDim+2) // of a block, where it takes fewest
	l := layOut(c, make([]tableStart, len(c.Seqs)), rows, mostPartials(stepBytes, countBlocks(p, rows), floats))
	return len(l.works)*workBytes + 4*(l.merges.counters+l.halves*l.merges.partials*floats)
}
