package model_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// fork forks a sequence.
func fork(t *testing.T, seq *model.Sequence) *model.Sequence {
	t.Helper()
	f, err := seq.Fork()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestForksGoOnAlike: with the same tokens, in turns and in one batch, a fork and its parent have the same bits as
// a sequence that read all of it for itself: wherever in a page they part, and where windows have dropped pages.
func TestForksGoOnAlike(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.Name(), func(t *testing.T) {
			r := newRunner(t, openModel(t, g.Dir), model.Options{MaxSequences: 9, PageSize: 4, BatchTokens: 8, Invariant: true})
			for _, n := range []int{0, 3, 4, len(g.IDs) - 6} {
				alone, parent := r.NewSequence(), r.NewSequence()
				if n > 0 {
					modeltest.Feed(t, alone, r, g.IDs[:n], 8)
					modeltest.Feed(t, parent, r, g.IDs[:n], 8)
				}
				child := fork(t, parent)
				if child.Len() != n {
					t.Fatalf("the fork has %d tokens, want %d", child.Len(), n)
				}
				for i, id := range g.IDs[n : n+6] {
					want := modeltest.Feed(t, alone, r, []int{id}, 1)
					got := forwardEach(t, r, i >= 3, id, child, parent)
					if !slices.Equal(got[0], want) || !slices.Equal(got[1], want) {
						t.Errorf("forked at %d: %d tokens on, logits differ from those of the same text", n, i+1)
					}
				}
			}
		})
	}
}

// forwardEach appends a token to sequences, one after the other or at once, and returns the logits of each.
func forwardEach(t *testing.T, r *model.Runner, together bool, id int, seqs ...*model.Sequence) (logits [][]float32) {
	t.Helper()
	var parts []model.Part
	for _, s := range seqs {
		logits = append(logits, make([]float32, r.Config().VocabSize))
		parts = append(parts, model.Part{Seq: s, IDs: []int{id}, Logits: logits[len(logits)-1]})
	}
	if together {
		if err := r.Forward(context.Background(), parts...); err != nil {
			t.Fatal(err)
		}
		return logits
	}
	for _, p := range parts {
		if err := r.Forward(context.Background(), p); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

// TestForksAreIndependent: what one appends, and that it is freed, changes nothing in the other. They share what they
// have in common until then, and leave no page behind.
func TestForksAreIndependent(t *testing.T) {
	for _, dir := range []string{"testdata/golden/gemma2", "testdata/golden/llama3_rope"} { // with windows, and without
		r := newRunner(t, openModel(t, dir), model.Options{MaxSequences: 6, PageSize: 4, Invariant: true})
		prompt := []int{1, 2, 3, 4, 5, 6} // a page and a half
		tails := [][]int{{7, 8, 9, 10, 11}, {12, 13, 14, 15, 16}}
		var want [][]float32
		for _, tail := range tails {
			seq := r.NewSequence()
			modeltest.Feed(t, seq, r, prompt, 6)
			want = append(want, modeltest.Feed(t, seq, r, tail, 1))
			if err := seq.Free(); err != nil {
				t.Fatal(err)
			}
		}
		parent := r.NewSequence()
		modeltest.Feed(t, parent, r, prompt, 6)
		bytes := r.KVBytes()
		child := fork(t, parent)
		if r.KVBytes() != bytes {
			t.Errorf("%s: a fork took %d bytes, want none before it appends", dir, r.KVBytes()-bytes)
		}
		got := modeltest.Feed(t, child, r, tails[1][:2], 1)
		if !slices.Equal(modeltest.Feed(t, parent, r, tails[0], 1), want[0]) {
			t.Errorf("%s: the parent's logits changed with what its fork has", dir)
		}
		if err := parent.Free(); err != nil {
			t.Fatal(err)
		}
		modeltest.Feed(t, r.NewSequence(), r, []int{300, 301, 302, 303, 304, 305, 306, 307}, 8) // where the parent was
		if got = append(got, modeltest.Feed(t, child, r, tails[1][2:], 1)...); !slices.Equal(got, want[1]) {
			t.Errorf("%s: the fork's logits changed with what its parent had", dir)
		}
		if err := child.Free(); err != nil {
			t.Fatal(err)
		}
		if r.KVBytes() != bytes { // of the eight tokens that came between, in two pages, too
			t.Errorf("%s: both forks are freed, and %d bytes are held, want %d", dir, r.KVBytes(), bytes)
		}
	}
}

// TestForksOutOfPages: a fork that finds no page to copy into fails, and neither it nor its parent has changed.
func TestForksOutOfPages(t *testing.T) {
	r := newRunner(t, openModel(t, "testdata/golden/llama3_rope"), model.Options{PageSize: 4, MaxContext: 8, Invariant: true})
	parent := r.NewSequence()
	modeltest.Feed(t, parent, r, []int{1, 2, 3, 4, 5, 6}, 6)
	child, third := fork(t, parent), r.NewSequence()
	err := r.Forward(context.Background(), model.Part{Seq: child, IDs: []int{7}})
	if !errors.Is(err, kv.ErrNoPages) || child.Len() != 6 {
		t.Fatalf("error %v and %d tokens, want %v and 6", err, child.Len(), kv.ErrNoPages)
	}
	if err := child.Free(); err != nil {
		t.Fatal(err)
	}
	got := modeltest.Feed(t, parent, r, []int{7, 8}, 2)
	if err := parent.Free(); err != nil {
		t.Fatal(err)
	}
	want := modeltest.Feed(t, third, r, []int{1, 2, 3, 4, 5, 6, 7, 8}, 8)
	if !slices.Equal(got, want[6*r.Config().VocabSize:]) {
		t.Error("after a fork that failed, its parent's logits have changed")
	}
	for name, seq := range map[string]*model.Sequence{"freed": parent, "never made": {}, "nil": nil} {
		if f, err := seq.Fork(); !errors.Is(err, model.ErrInput) || f != nil {
			t.Errorf("forking a sequence that is %s: %v, want %v", name, err, model.ErrInput)
		}
	}
}
