package main

import (
	"context"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
)

// told is the CPU's backend, one that likes items of 16-bit elements as long as others are
// short, and keeps which of them its last plan was told.
type told struct {
	backend.Backend
	keys *int
}

func (b told) Info() backend.Info {
	info := b.Backend.Info()
	info.SaturatingElements, info.SaturatingConverted = 1<<20, 1
	return info
}

func (b told) Decode(ctx context.Context, l *backend.Launch) error {
	*b.keys = l.Plan.Config.SaturatingKeys
	return b.Backend.Decode(ctx, l)
}

// TestPlansKnowWhatIsStored: a backend's likings for a type reach the plan of a file whose
// keys are stored in it, whatever they have in the file, and that of its trace.
func TestPlansKnowWhatIsStored(t *testing.T) {
	for dtype, short := range map[string]bool{"f16": false, "bf16": false, "f32": true, "e4m3": true, "int4": true} {
		_, d, got := caseOf(t, goodFile(), &engineFlags{Backend: "cpu", PageSize: 2, KVDType: dtype})
		keys := 0
		eng, err := flashdec.Open(flashdec.Options{Backend: told{cpu.New(cpu.Options{Threads: 1}), &keys}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.engine.Close(); err != nil {
			t.Fatal(err)
		}
		d.engine = eng
		if err := d.decode(t.Context(), got, 0, false); err != nil {
			t.Fatal(err)
		}
		s := &tracedStep{}
		cmd := &traceCmd{File: d.c.path, engineFlags: engineFlags{PageSize: 2, KVDType: dtype}}
		if err := s.fromFile(t.Context(), &terminal{}, cmd); err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if short != (s.batch.KVBits != 16) {
			t.Errorf("%s: a trace's batch has elements of %d bits", dtype, s.batch.KVBits)
		}
		if keys == 0 || short != (keys == 1) {
			t.Errorf("%s: the plan was told of items of %d keys", dtype, keys)
		}
	}
}
