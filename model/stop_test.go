package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/network"
)

// watched is the CPU's steps, which notes those that begin, and is called back in one of them.
type watched struct {
	network.Steps
	engine *flashdec.Engine
	began  []string
	at     string
	call   func()
}

func (w *watched) Open(n *network.Network, o network.Options) (network.Steps, error) {
	s, err := newHost(n, w.engine, 2, false, o)
	w.Steps = s
	return w, err
}

// begin notes a step.
func (w *watched) begin(name string) {
	w.began = append(w.began, name)
	if name == w.at {
		w.call()
	}
}

func (w *watched) Embed() error        { w.begin("embed"); return w.Steps.Embed() }
func (w *watched) Project(i int) error { w.begin(fmt.Sprint("project ", i)); return w.Steps.Project(i) }

func (w *watched) AddAttention(i int) error {
	w.begin(fmt.Sprint("add attention ", i))
	return w.Steps.AddAttention(i)
}

func (w *watched) Gate(i int) error { w.begin(fmt.Sprint("gate ", i)); return w.Steps.Gate(i) }

func (w *watched) AddMLP(i int) error { w.begin(fmt.Sprint("add MLP ", i)); return w.Steps.AddMLP(i) }

func (w *watched) Experts(i int) error { w.begin(fmt.Sprint("experts ", i)); return w.Steps.Experts(i) }
func (w *watched) Head() error         { w.begin("head"); return w.Steps.Head() }

func (w *watched) Attend(ctx context.Context, i int) error {
	w.begin(fmt.Sprint("attend ", i))
	return w.Steps.Attend(context.Background(), i) // as one that has looked already
}

// TestNoStepBeginsOnceDone: a batch whose context is done ends with the step under way, whichever that is, and leaves
// its sequence as it was.
func TestNoStepBeginsOnceDone(t *testing.T) {
	for _, name := range []string{"qwen3", "gpt_oss"} { // and with a mixture of experts
		m, err := Open("testdata/golden/" + name)
		if err != nil {
			t.Fatal(err)
		}
		eng, err := flashdec.Open(flashdec.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{engine: eng}
		r, err := NewRunner(m, Options{Engine: eng, Device: w})
		if err != nil {
			t.Fatal(err)
		}
		seq, logits := r.NewSequence(), make([]float32, m.Config().VocabSize)
		part := Part{Seq: seq, IDs: []int{1, 2, 3}, Logits: logits}
		if err := r.Forward(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		all := w.began
		if want := 2 + 5*m.Config().NumLayers(); len(all) != want && len(all) != want-m.Config().NumLayers() {
			t.Fatalf("%s: steps %q", name, all)
		}
		for i, at := range all[:len(all)-1] { // the head is the last
			ctx, cancel := context.WithCancel(t.Context())
			w.began, w.at, w.call = nil, at, cancel
			if err := r.Forward(ctx, part); !errors.Is(err, context.Canceled) || !slices.Equal(w.began, all[:i+1]) || seq.Len() != 3 {
				t.Errorf("%s, cancelled in %s: %v after %q, %d tokens, want no step after it and 3 tokens", name, at, err, w.began, seq.Len())
			}
		}
		if err := errors.Join(r.Close(), m.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	}
}
