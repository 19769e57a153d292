package gpu

import (
	"errors"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// recording is the pass of one new token of each of some sequences, as a graph. What
// changes from token to token is read on the device: ids, positions, places, lengths
// and page tables.
type recording struct {
	graph interface { // an nv.Graph
		Launch(*nv.Stream) error
		Destroy() error
	}
	steps [network.NumKinds]*cuda.Step
}

// recordable reports a batch of one token a sequence, whose logits are all wanted.
func (s *steps) recordable() bool {
	n := len(s.in.Queries)
	if n > fewRows || s.tokens != n || len(s.in.Rows) != n {
		return false
	}
	for _, q := range s.in.Queries {
		if q != 1 {
			return false
		}
	}
	return true
}

// replay runs the recording for as many sequences, made anew where there is none or
// its plan no longer fits.
func (s *steps) replay(pass func() error) error {
	n := s.tokens
	r := s.graphs[n]
	if r != nil {
		switch err := s.follow(r); {
		case errors.Is(err, cuda.ErrStale):
			if err := errors.Join(s.d.stream.Synchronize(), s.forget(n)); err != nil {
				return err
			}
			r = nil
		case err != nil:
			return err
		}
	}
	if r == nil {
		var err error
		if r, err = s.record(pass); err != nil {
			return err
		}
		s.graphs[n] = r
	}
	if err := r.graph.Launch(s.d.stream); err != nil {
		return err
	}
	return s.fetch(s.in.Logits)
}

// forget closes the recording for so many sequences. Closed or not, it is not replayed again.
func (s *steps) forget(n int) error {
	r := s.graphs[n]
	delete(s.graphs, n)
	return r.close()
}

// follow brings lengths and page tables to the recording's steps.
func (s *steps) follow(r *recording) error {
	for k, step := range r.steps {
		if step == nil {
			continue
		}
		view := s.layerView(network.Kind(k), 0)
		if err := step.Follow(&view, s.d.gpu.Stream()); err != nil {
			return err
		}
	}
	return nil
}

// A plan fits until a sequence has grown by a quarter, or by minGrowth keys: its splits
// are then cut for too few keys to be worth replaying.
const minGrowth = 128

// record plans for the batch's lengths and records the pass.
func (s *steps) record(pass func() error) (*recording, error) {
	room := minGrowth
	for _, lens := range s.in.Lens {
		for _, n := range lens {
			room = max(room, n/4)
		}
	}
	defer func() { s.recording = false }()
	s.recording = true
	err := s.plan(room)
	r := &recording{}
	if err == nil {
		r.graph, err = s.d.stream.Capture(pass)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeSteps())
	}
	for k := range s.kinds {
		r.steps[k], s.kinds[k].step = s.kinds[k].step, nil
	}
	return r, nil
}

func (r *recording) close() error {
	err := r.graph.Destroy()
	for _, step := range r.steps {
		if step != nil {
			err = errors.Join(err, step.Close())
		}
	}
	return err
}
