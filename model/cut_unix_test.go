//go:build unix

package model_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
	"github.com/flashdec/flashdec/tensorfile"
)

// TestWeightsOfACutFileAreAnError: whoever of the crew needs what is gone, Forward says so, the sequence is as it was,
// and once the file is whole again it goes on.
func TestWeightsOfACutFileAreAnError(t *testing.T) {
	for _, threads := range []int{1, 3} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(smallest)); err != nil {
			t.Fatal(err)
		}
		weights := filepath.Join(dir, "model.safetensors")
		whole, err := os.ReadFile(weights)
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, openModel(t, dir), model.Options{Threads: threads})
		seq, fresh := r.NewSequence(), r.NewSequence()
		modeltest.Feed(t, seq, r, []int{1, 2, 3}, 3)
		for _, size := range []int{4096, len(whole) / 2, len(whole) - 8192} {
			if err := os.Truncate(weights, int64(size)); err != nil {
				t.Fatal(err)
			}
			logits := make([]float32, r.Config().VocabSize)
			if err := r.Forward(context.Background(), model.Part{Seq: seq, IDs: []int{4}, Logits: logits}); !errors.Is(err, tensorfile.ErrCut) {
				t.Errorf("%d threads, cut to %d bytes: error %v, want %v", threads, size, err, tensorfile.ErrCut)
			}
			if err := os.WriteFile(weights, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if seq.Len() != 3 {
				t.Fatalf("%d threads, cut to %d bytes: the sequence has %d tokens, want 3", threads, size, seq.Len())
			}
		}
		got := modeltest.Feed(t, seq, r, []int{4}, 1)
		want := modeltest.Feed(t, fresh, r, []int{1, 2, 3, 4}, 4)[3*r.Config().VocabSize:]
		for i := range got {
			if d := got[i] - want[i]; !(d < 1e-5 && d > -1e-5) {
				t.Fatalf("%d threads: logit %d is %v after the file is whole again, want %v", threads, i, got[i], want[i])
			}
		}
	}
}
