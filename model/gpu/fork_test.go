package gpu_test

import (
	"context"
	"testing"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// TestForks: a page that forks share is copied on the GPU before one of them appends into it. With tokens of their
// own, prompts and single ones, in turns and in one batch, each goes on as a sequence that read all of its text.
func TestForks(t *testing.T) {
	eng, d := open(t)
	ctx := context.Background()
	for _, name := range []string{"gemma3", "llama3_rope"} { // with a window, and without
		r := newRunner(t, goldenDir+"/"+name, model.Options{Engine: eng, Device: d, PageSize: 16, MaxSequences: 4})
		vocab := r.Config().VocabSize
		prompt := make([]int, 40) // two pages and a half
		for i := range prompt {
			prompt[i] = (i*37 + i*i) % vocab
		}
		parent := r.NewSequence()
		if err := parent.Feed(ctx, prompt, nil, nil); err != nil { // nobody waits for it
			t.Fatal(err)
		}
		child, err := parent.Fork()
		if err != nil {
			t.Fatal(err)
		}
		tails := [][]int{{7, 8, 9, 10, 11, 12}, {107, 108, 109, 110, 111, 112}}
		var want [2][]float32
		for i, tail := range tails {
			want[i] = modeltest.Feed(t, r.NewSequence(), r, append(prompt[:40:40], tail...), 64)[40*vocab:]
		}
		got := [2][]float32{make([]float32, 6*vocab), make([]float32, 6*vocab)}
		part := func(i, from, to int) model.Part {
			return model.Part{Seq: [...]*model.Sequence{parent, child}[i], IDs: tails[i][from:to], Logits: got[i][from*vocab : to*vocab]}
		}
		for _, parts := range [][]model.Part{
			{part(1, 0, 1)}, {part(0, 0, 3)}, {part(0, 3, 4), part(1, 1, 2)}, {part(1, 2, 4)}, {part(1, 4, 5), part(0, 4, 5)}, {part(0, 5, 6), part(1, 5, 6)},
		} {
			if err := r.Forward(ctx, parts...); err != nil {
				t.Fatal(err)
			}
		}
		near(t, name+", the parent", got[0], want[0])
		near(t, name+", the fork", got[1], want[1])
	}
}
