package bench

import (
	"math"

	"github.com/flashdec/flashdec/kv"
)

// plain is the loop that one writes first, with its float32 numbers: all scores
// of a KV head's query heads, the softmax, the sum of the values. Each row is
// read once for the group.
type plain struct {
	dim    int
	view   *kv.View
	head   int
	first  int // key that is seen first
	row    []float32
	scores [][]float32 // [group][keys]
}

// plainHead computes the query heads of one KV head of sequence 0: q and out are
// [group, dim].
func plainHead(c *Case, view *kv.View, head int, q, out []float32) {
	n := view.Seqs[0].Len
	p := plain{dim: c.Dim, view: view, head: head, first: n - c.seen(n), row: make([]float32, c.Dim)}
	for range c.Heads / c.KVHeads {
		p.scores = append(p.scores, make([]float32, c.seen(n)))
	}
	p.score(q)
	for _, s := range p.scores {
		softmax(s)
	}
	p.sum(out)
}

func (p *plain) read(plane *kv.Plane, key int) {
	pos := p.first + key
	plane.Row(p.row, p.view.Seqs[0].Pages[pos/p.view.PageSize], p.head, pos%p.view.PageSize)
}

// score is q·k/√dim.
func (p *plain) score(q []float32) {
	scale := float32(1 / math.Sqrt(float64(p.dim)))
	for key := range p.scores[0] {
		p.read(&p.view.K, key)
		for g := range p.scores {
			sum := float32(0)
			for d, x := range q[g*p.dim:][:len(p.row)] {
				sum += x * p.row[d]
			}
			p.scores[g][key] = sum * scale
		}
	}
}

func softmax(s []float32) {
	largest, sum := float32(math.Inf(-1)), float32(0)
	for _, x := range s {
		largest = max(largest, x)
	}
	for i, x := range s {
		s[i] = float32(math.Exp(float64(x - largest)))
		sum += s[i]
	}
	for i := range s {
		s[i] /= sum
	}
}

func (p *plain) sum(out []float32) {
	clear(out)
	for key := range p.scores[0] {
		p.read(&p.view.V, key)
		for g := range p.scores {
			weight := p.scores[g][key]
			for d, x := range p.row {
				out[g*p.dim+d] += weight * x
			}
		}
	}
}
