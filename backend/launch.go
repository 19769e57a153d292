package backend

import (
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/attn"
)

// ErrClosed is what a closed backend's methods return.
var ErrClosed = errors.New("backend is closed")

// NumQueries is the number of new queries of all sequences of the plan.
func (l *Launch) NumQueries() int {
	if l.Plan == nil {
		return 0
	}
	n := 0
	for i := range l.Plan.Config.Seqs {
		n += l.Plan.Config.Seqs[i].NumQueries
	}
	return n
}

// Validate reports the first thing that keeps the launch from being computed, in
// the plan, too. What passes can be decoded without a further check. It wraps
// [attn.ErrShape], [attn.ErrOption] or an error of the cache's view.
func (l *Launch) Validate() error {
	if err := l.ValidateStep(); err != nil {
		return err
	}
	return l.checkBuffers()
}

// ValidateStep is Validate but for the buffers: of a step whose queries and results
// do not lie on the host.
func (l *Launch) ValidateStep() error {
	if l == nil {
		return fmt.Errorf("%w: the launch is nil", attn.ErrShape)
	}
	if l.Plan == nil {
		return fmt.Errorf("%w: the launch has no plan", attn.ErrShape)
	}
	if l.Options == nil {
		return fmt.Errorf("%w: the launch has no options", attn.ErrOption)
	}
	if err := l.Shape.Validate(); err != nil {
		return err
	}
	if err := l.Options.Validate(l.Shape); err != nil {
		return err
	}
	for _, check := range [...]func(*Launch) error{(*Launch).checkPlan, (*Launch).checkKV, (*Launch).checkMask} {
		if err := check(l); err != nil {
			return err
		}
	}
	return nil
}

// checkPlan compares the plan with the shape, the rules and the cache: a plan
// made for another step would skip keys or read beyond them.
func (l *Launch) checkPlan() error {
	c := &l.Plan.Config
	if c.NumKVHeads != l.Shape.NumKVHeads || c.GroupSize != l.Shape.GroupSize() {
		return fmt.Errorf("%w: the plan is for %d KV heads in groups of %d, want %d in groups of %d",
			attn.ErrShape, c.NumKVHeads, c.GroupSize, l.Shape.NumKVHeads, l.Shape.GroupSize())
	}
	if c.Causal != l.Options.Causal || c.Window != l.Options.Window {
		return fmt.Errorf("%w: the plan is for causal %t and window %d, want %t and %d",
			attn.ErrOption, c.Causal, c.Window, l.Options.Causal, l.Options.Window)
	}
	if len(c.Seqs) != len(l.KV.Seqs) {
		return fmt.Errorf("%w: the plan is for %d sequences, the cache's view has %d", attn.ErrShape, len(c.Seqs), len(l.KV.Seqs))
	}
	for i, s := range c.Seqs {
		if s.Len != l.KV.Seqs[i].Len {
			return fmt.Errorf("%w: the plan has %d keys in sequence %d, the cache %d", attn.ErrShape, s.Len, i, l.KV.Seqs[i].Len)
		}
	}
	return l.Plan.Check()
}

func (l *Launch) checkKV() error {
	if l.KV.NumKVHeads != l.Shape.NumKVHeads {
		return fmt.Errorf("%w: the cache has %d KV heads, want %d", attn.ErrShape, l.KV.NumKVHeads, l.Shape.NumKVHeads)
	}
	if l.KV.K.Dim != l.Shape.KeyDim || l.KV.V.Dim != l.Shape.ValueDim {
		return fmt.Errorf("%w: the cache's key dim is %d and its value dim %d, want %d and %d",
			attn.ErrShape, l.KV.K.Dim, l.KV.V.Dim, l.Shape.KeyDim, l.Shape.ValueDim)
	}
	return l.KV.Validate()
}

func (l *Launch) checkMask() error {
	if l.Options.Mask == nil {
		return nil
	}
	seqs := l.Plan.Config.Seqs
	lens, queries := make([]int, len(seqs)), make([]int, len(seqs))
	for i, s := range seqs {
		lens[i], queries[i] = s.Len, s.NumQueries
	}
	return l.Options.Mask.Fits(lens, queries)
}

// checkBuffers compares the buffers' lengths with the plan's queries.
func (l *Launch) checkBuffers() error {
	queries := l.NumQueries()
	if err := l.Shape.CheckQueries(queries); err != nil {
		return err
	}
	rows := queries * l.Shape.NumHeads
	if err := l.checkLen("q", len(l.Q), rows, l.Shape.KeyDim); err != nil {
		return err
	}
	if l.States != nil {
		return l.checkStates(rows)
	}
	if l.LSE != nil {
		if err := l.checkLen("lse", len(l.LSE), rows, 1); err != nil {
			return err
		}
	}
	return l.checkLen("out", len(l.Out), rows, l.Shape.ValueDim)
}

func (l *Launch) checkStates(rows int) error {
	s := l.States
	if s.ValueDim != l.Shape.ValueDim {
		return fmt.Errorf("%w: states of value dim %d, want %d", attn.ErrShape, s.ValueDim, l.Shape.ValueDim)
	}
	return errors.Join(
		l.checkLen("the states' m", len(s.M), rows, 1),
		l.checkLen("the states' l", len(s.L), rows, 1),
		l.checkLen("the states' o", len(s.O), rows, s.ValueDim),
	)
}

func (l *Launch) checkLen(name string, got, rows, dim int) error {
	if want := rows * dim; got != want {
		return fmt.Errorf("%w: %s has %d elements, want %d: %d queries × %d heads × %d",
			attn.ErrShape, name, got, want, rows/l.Shape.NumHeads, l.Shape.NumHeads, dim)
	}
	return nil
}
