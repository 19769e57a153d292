package plan_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/plan"
)

// maxLoad is the load of the busiest processor.
func maxLoad(p *plan.Plan) (highest int) {
	for _, list := range p.Assign() {
		load := 0
		for _, i := range list {
			load += p.Work(p.Items[i])
		}
		highest = max(highest, load)
	}
	return highest
}

// batches are the batches that must come out even.
func batches() map[string][]plan.Seq {
	rng := rand.New(rand.NewPCG(3, 4))
	return map[string][]plan.Seq{
		"512":               lens(512),
		"1K":                lens(1024),
		"4K":                lens(4096),
		"8K":                lens(8192),
		"32789":             lens(32789),
		"128K":              lens(131072),
		"1M":                lens(1 << 20),
		"3×4K":              equal(3, 4096),
		"64×2K":             equal(64, 2048),
		"77×2K":             equal(77, 2048),
		"8×8K 100×1K":       concat(equal(8, 8192), equal(100, 1024)),
		"13353 256 short":   concat(lens(13353), equal(256, 200)),
		"128K 63×1K":        concat(lens(131072), equal(63, 1024)),
		"128K 63×16":        concat(lens(131072), equal(63, 16)),
		"1024 to 8K":        random(rng, 1024, 8192),
		"64 to 32K":         random(rng, 64, 32768),
		"7 to 128K":         random(rng, 7, 131072),
		"2 long, 30 medium": concat(equal(2, 100000), equal(30, 5000)),
	}
}

// beyond32Bits reports that a plan for the batch counts more work than an int of 32 bits holds, and says so.
func beyond32Bits(cfg plan.Config) bool {
	if strconv.IntSize > 32 {
		return false
	}
	_, err := plan.New(cfg)
	return errors.Is(err, attn.ErrShape) && strings.Contains(err.Error(), "keys × query rows")
}

// leastPart is how many keys the smallest part of a cut has.
const leastPart = 128

// TestEvenWork simulates the processors: the last ends within 10% of the time
// that the work takes when spread perfectly. A share of less than four smallest
// parts cannot always be met so well: there it is one part late at most. Odd
// widths are among them (31 threads), where coarse pieces leave one processor
// with two.
func TestEvenWork(t *testing.T) {
	sum, n := 0.0, 0
	for name, seqs := range batches() {
		for _, width := range []int{1, 2, 3, 7, 8, 15, 16, 31, 64, 96, 108, 132, 148, 192} {
			for _, heads := range []int{1, 2, 3, 4, 8} {
				p := mustNew(t, plan.Config{Seqs: seqs, NumKVHeads: heads, GroupSize: 4, Width: width})
				part := p.Work(plan.Item{NumQueries: 1, End: leastPart})
				ideal, end := max(totalWork(p)/width, part), maxLoad(p)
				late := ideal / 10
				if ideal < 4*part {
					late = part
				}
				if end > ideal+late {
					t.Errorf("%s, %d KV heads, width %d: ends at %d, ideal %d\n%s", name, heads, width, end, ideal, p)
				}
				sum += float64(end) / float64(ideal)
				n++
			}
		}
	}
	if mean := sum / float64(n); mean > 1.03 {
		t.Errorf("the last processor ends at %.3f of the ideal in the mean of %d batches, want at most 1.03", mean, n)
	}
}

// tilesEnd is when the last processor ends if each takes a split of all heads of a
// tile at once.
func tilesEnd(p *plan.Plan, tile int) int {
	loads := make([]int, p.Config.Width)
	for _, it := range p.Items {
		if it.Head%tile == 0 {
			least := slices.Index(loads, slices.Min(loads))
			loads[least] += p.Work(it) * min(tile, p.Config.NumKVHeads-it.Head)
		}
	}
	return slices.Max(loads)
}

// TestHeadTilesComeOutEven: a plan for processors that take a tile of heads together
// is cut so that they end together, unless that would end later than without tiles;
// one long sequence always is.
func TestHeadTilesComeOutEven(t *testing.T) {
	for name, seqs := range batches() {
		for _, width := range []int{1, 2, 3, 7, 16} {
			for _, heads := range []int{4, 8, 16} {
				const tile = 8
				cfg := plan.Config{Seqs: seqs, NumKVHeads: heads, GroupSize: 4, Width: width}
				if beyond32Bits(cfg) {
					continue
				}
				apart := mustNew(t, cfg)
				cfg.HeadTile = tile
				p := mustNew(t, cfg)
				ideal := totalWork(p) / width
				asked := len(seqs) == 1 || !slices.Equal(p.Items, apart.Items)
				if end := tilesEnd(p, tile); asked && ideal >= 64*p.Work(plan.Item{NumQueries: 1, End: leastPart}) && end > ideal+ideal/8 {
					t.Errorf("%s, %d KV heads, width %d: tiles of heads end at %d, ideal %d\n%s", name, heads, width, end, ideal, p)
				}
				if end := maxLoad(apart); maxLoad(p) > end+end/10 {
					t.Errorf("%s, %d KV heads, width %d: heads by themselves end at %d, without tiles at %d\n%s", name, heads, width, maxLoad(p), end, p)
				}
			}
		}
	}
}

func totalWork(p *plan.Plan) (sum int) {
	for _, it := range p.Items {
		sum += p.Work(it)
	}
	return sum
}
