package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
)

var empties = []test{
	{"NoSequence", (*config).emptyBatch},
	{"NoQuery", (*config).emptyQueries},
	{"NoKey", (*config).emptyKeys},
	{"NoKeyBesideOthers", (*config).emptyAmongOthers},
	{"NoKeyButASink", (*config).emptySink},
	{"NoKeyYieldsEmptyStates", (*config).emptyStates},
	{"NothingVisible", (*config).emptyRows},
}

func (c *config) emptyBatch(t *testing.T, b backend.Backend) {
	c.verify(t, b, small())
}

func (c *config) emptyQueries(t *testing.T, b backend.Backend) {
	for _, queries := range [][]int{{0, 0}, {0, 1}, {3, 0}} {
		cs := small(40, 300)
		cs.Queries = queries
		c.verify(t, b, cs)
	}
}

func (c *config) emptyKeys(t *testing.T, b backend.Backend) {
	for _, causal := range []bool{false, true} {
		cs := small(0, 0, 0)
		cs.Queries = []int{1, 0, 4}
		cs.Options.Causal = causal
		r := c.verify(t, b, cs)
		if err := r.empty(0, len(r.LSE)); err != nil {
			t.Error(err)
		}
	}
}

func (c *config) emptyAmongOthers(t *testing.T, b backend.Backend) {
	cs := small(0, 32)
	r := c.verify(t, b, cs)
	if err := r.empty(0, cs.Shape.NumHeads); err != nil {
		t.Error(err)
	}
}

// empty checks that rows are 0 and −Inf, to the bit.
func (r Result) empty(from, to int) error {
	dim := len(r.Out) / len(r.LSE)
	for i := from; i < to; i++ {
		if !math.IsInf(float64(r.LSE[i]), -1) {
			return fmt.Errorf("lse[%d] = %v, want −Inf: no key is visible", i, r.LSE[i])
		}
	}
	for i, x := range r.Out[from*dim : to*dim] {
		if math.Float32bits(x) != 0 {
			return fmt.Errorf("out[%d] = %v, want 0: no key is visible", from*dim+i, x)
		}
	}
	return nil
}

// emptySink: with no visible key the sink is all there is.
func (c *config) emptySink(t *testing.T, b backend.Backend) {
	cs := small(0, 0, 7)
	cs.Options.Sinks = []float32{2.5, -3, float32(math.Inf(-1)), 0}
	r := c.verify(t, b, cs)
	for i, want := range cs.Options.Sinks {
		if r.LSE[i] != want {
			t.Errorf("lse[%d] = %v, want the sink %v", i, r.LSE[i], want)
		}
	}
}

func (c *config) emptyStates(t *testing.T, b backend.Backend) {
	cs := small(0, 7)
	cs.Options.Sinks = []float32{1, 2, 3, 4} // which states are without
	states, err := decodeStates(b, cs.Build())
	if err != nil {
		t.Fatal(err)
	}
	for i := range cs.Shape.NumHeads {
		s := states.Row(i)
		if !s.Empty() || s.L != 0 {
			t.Errorf("state %d is (%v, %v), want (−Inf, 0)", i, s.M, s.L)
		}
		for d, x := range s.O {
			if x != 0 {
				t.Fatalf("state %d: o[%d] = %v, want 0", i, d, x)
			}
		}
	}
}

// emptyRows: keys are there, but none that a row sees.
func (c *config) emptyRows(t *testing.T, b backend.Backend) {
	for _, splits := range []int{0, 1, 4} {
		cs := small(100, 100)
		cs.Queries, cs.NumSplits = counts(2, 3), splits
		cs.Options.Mask = &attn.Mask{Seqs: 1, Queries: 3, Keys: 100, Visible: make([]uint8, 300)}
		r := c.verify(t, b, cs)
		if err := r.empty(0, len(r.LSE)); err != nil {
			t.Errorf("%d splits: %v", splits, err)
		}
		cs.Options.Mask.Visible[150] = 1
		c.verify(t, b, cs)
	}
}
