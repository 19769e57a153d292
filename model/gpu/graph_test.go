package gpu

import (
	"errors"
	"testing"

	"github.com/flashdec/flashdec/internal/nv"
)

// stuck is a graph that the driver does not give back.
type stuck struct{ err error }

func (g stuck) Launch(*nv.Stream) error { return g.err }
func (g stuck) Destroy() error          { return g.err }

// TestForgottenRecordingIsGone: a recording whose plan no longer fits is forgotten also when it cannot be closed: the
// next pass records anew, and Close does not close it again.
func TestForgottenRecordingIsGone(t *testing.T) {
	failed := errors.New("not given back")
	s := &steps{graphs: map[int]*recording{1: {graph: stuck{failed}}, 2: {graph: stuck{}}}}
	if err := s.forget(1); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
	if s.graphs[1] != nil || s.graphs[2] == nil {
		t.Errorf("%d recordings are left, want the other one", len(s.graphs))
	}
}
