package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/flashdec/flashdec/kv"
)

// Sequence is the tokens that a runner has seen of one text, as their keys and values.
type Sequence struct {
	runner *Runner
	caches []*kv.Sequence // one in each of the runner's; nil when freed
	n      int            // tokens, forgotten ones counted
}

// NewSequence returns an empty sequence.
func (r *Runner) NewSequence() *Sequence {
	if r == nil {
		return new(Sequence)
	}
	s := &Sequence{runner: r, caches: make([]*kv.Sequence, len(r.caches))}
	for i, c := range r.caches {
		s.caches[i] = c.NewSequence()
	}
	return s
}

// lock locks the runner of a sequence that can be used. It wraps ErrInput.
func (s *Sequence) lock() error {
	if s == nil || s.runner == nil {
		return fmt.Errorf("%w: the sequence was never made", ErrInput)
	}
	if err := s.runner.lock(); err != nil {
		return err
	}
	if s.caches == nil {
		s.runner.mu.Unlock()
		return fmt.Errorf("%w: the sequence is freed", ErrInput)
	}
	return nil
}

// Len is the number of tokens.
func (s *Sequence) Len() int {
	if s == nil || s.runner == nil {
		return 0
	}
	s.runner.mu.Lock()
	defer s.runner.mu.Unlock()
	return s.n
}

// Fork returns a second sequence with the same tokens, which goes on for itself. They share all pages of keys and
// values, on a GPU too, until one of them appends into a shared one, which it copies first: so one prompt is read and
// kept once for several answers. It wraps ErrInput.
func (s *Sequence) Fork() (*Sequence, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.runner.mu.Unlock()
	f := &Sequence{runner: s.runner, caches: make([]*kv.Sequence, len(s.caches)), n: s.n}
	for i, l := range s.caches {
		var err error
		if f.caches[i], err = l.Fork(); err != nil {
			return nil, err // a cache is closed, which has freed all
		}
	}
	return f, nil
}

// Free gives the sequence's pages back. It cannot be used any more. It wraps ErrInput when it is freed
// already.
func (s *Sequence) Free() error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.runner.mu.Unlock()
	var err error
	for _, l := range s.caches {
		err = errors.Join(err, l.Free())
	}
	s.caches = nil
	return err
}

// Feed appends any number of tokens, a batch at a time, and writes the logits of the last to logits
// [VocabSize], nil for none. progress, unless nil, is told after each batch how many tokens are done. When
// it fails, the batches before are in the sequence; what is too long or no token is refused before any. Errors are
// those of [Runner.Forward].
func (s *Sequence) Feed(ctx context.Context, ids []int, logits []float32, progress func(done int)) error {
	if s == nil || s.runner == nil {
		return fmt.Errorf("%w: the sequence was never made", ErrInput)
	}
	if err := s.fits(ids); err != nil {
		return err
	}
	for done := 0; done < len(ids); {
		n := min(s.runner.opt.BatchTokens, len(ids)-done)
		part := Part{Seq: s, IDs: ids[done : done+n]}
		if done += n; done == len(ids) {
			part.Logits = logits
		}
		if err := s.runner.Forward(ctx, part); err != nil {
			return err
		}
		if progress != nil {
			progress(done)
		}
	}
	return nil
}

// fits wraps ErrContext or ErrInput where the sequence cannot take all of ids.
func (s *Sequence) fits(ids []int) error {
	if err := s.runner.lock(); err != nil {
		return err
	}
	defer s.runner.mu.Unlock()
	return s.takes(ids)
}

// takes is [Sequence.fits] with the runner locked.
func (s *Sequence) takes(ids []int) error {
	if err := s.holds(len(ids)); err != nil {
		return err
	}
	vocab := s.runner.model.config.VocabSize
	for _, id := range ids {
		if id < 0 || id >= vocab {
			return fmt.Errorf("%w: token %d, want 0 to %d", ErrInput, id, vocab-1)
		}
	}
	return nil
}

// holds wraps ErrContext where the sequence would have too many tokens with n more.
func (s *Sequence) holds(n int) error {
	if most := s.runner.opt.MaxContext; n > most-s.n {
		return fmt.Errorf("%w: %d tokens and %d more, want at most %d", ErrContext, s.n, n, most)
	}
	return nil
}

// MakeUp appends n tokens with keys and values that are made up, normal numbers of a seed: so what decoding
// after a long text takes can be measured without reading one. It wraps ErrInput, ErrContext, or ErrNoPages of
// package kv, after which the batches before are in the sequence.
func (s *Sequence) MakeUp(n int, seed uint64) error {
	if err := s.lock(); err != nil {
		return err
	}
	r := s.runner
	defer r.mu.Unlock()
	if n < 0 {
		return fmt.Errorf("%w: %d tokens, want 0 or more", ErrInput, n)
	}
	if err := s.holds(n); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	row := 0 // of the widest cache: one may hold several layers
	for _, c := range r.caches {
		row = max(row, c.Config().NumKVHeads*r.model.config.HeadDim)
	}
	k, v := make([]float32, r.opt.BatchTokens*row), make([]float32, r.opt.BatchTokens*row)
	for n > 0 {
		tokens := min(n, r.opt.BatchTokens)
		for i := range tokens * row {
			k[i], v[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		}
		if err := s.append(tokens, k, v); err != nil {
			return err
		}
		s.n, n = s.n+tokens, n-tokens
	}
	return nil
}

// append appends tokens to all of the sequence's caches, of whose rows k and v hold enough for the widest: to all,
// or to none.
func (s *Sequence) append(tokens int, k, v []float32) error {
	r := s.runner
	for i, seq := range s.caches {
		n := tokens * r.caches[i].Config().NumKVHeads * r.model.config.HeadDim
		if err := seq.Append(k[:n], v[:n]); err != nil {
			for _, seq := range s.caches[:i] {
				_ = seq.Truncate(seq.Len() - tokens) // fails only on what is closed
			}
			return err
		}
	}
	for i, seq := range s.caches {
		if err := r.forget(i, seq); err != nil {
			return err
		}
	}
	return nil
}
