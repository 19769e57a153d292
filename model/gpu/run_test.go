package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/gpu"
	"github.com/flashdec/flashdec/model/modeltest"
)

// near holds logits to others of the same sequence, computed another way.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	within(t, what, got, want, 1e-5)
}

func within(t *testing.T, what string, got, want []float32, limit float64) {
	t.Helper()
	wide := make([]float64, len(want))
	for i, x := range want {
		wide[i] = float64(x)
	}
	if d := modeltest.Distance(got, wide); !(d <= limit) {
		t.Errorf("%s: logits are %.3g of their spread away", what, d)
	}
}

// TestReplaysFollowGrowth: hundreds of tokens one at a time, through the plans and graphs that a growing sequence
// takes, with windows that drop pages, end where the same tokens in one batch do.
func TestReplaysFollowGrowth(t *testing.T) {
	eng, d := open(t)
	for _, name := range []string{"gemma3", "llama3_rope"} {
		const n = 450
		opt := model.Options{Engine: eng, Device: d, PageSize: 16, MaxContext: n, MaxSequences: 2, BatchTokens: n}
		r := newRunner(t, goldenDir+"/"+name, opt)
		ids := make([]int, n)
		for i := range ids {
			ids[i] = (i*37 + i*i) % r.Config().VocabSize
		}
		vocab := r.Config().VocabSize
		whole := modeltest.Feed(t, r.NewSequence(), r, ids, n)[(n-1)*vocab:]
		steps := modeltest.Feed(t, r.NewSequence(), r, ids, 1)[(n-1)*vocab:]
		near(t, name, steps, whole)
	}
}

// TestCachesOfCodes: keys and values as codes, with a scale a token and head that the
// device computes, give the logits that they give on a CPU, but for codes that round the
// other way; token by token and in one batch.
func TestCachesOfCodes(t *testing.T) {
	eng, d := open(t)
	host, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for _, name := range []string{"llama3_rope", "gemma3"} { // without norms of heads, and with them
		for _, types := range [][2]kv.DType{{kv.I8, kv.I8}, {kv.F8E4M3, kv.F8E4M3}, {kv.I4, kv.I4}, {kv.F8E5M2, kv.F8E5M2}, {kv.I8, kv.F16}, {kv.F32, kv.F8E4M3}} {
			t.Run(fmt.Sprintf("%s/%v", name, types), func(t *testing.T) { checkCodes(t, host, eng, d, name, types) })
		}
	}
}

func checkCodes(t *testing.T, host, eng *flashdec.Engine, d *gpu.Device, name string, types [2]kv.DType) {
	const n = 20
	opt := model.Options{Engine: host, KeyType: types[0], ValueType: types[1], PageSize: 16, MaxContext: n, MaxSequences: 2, BatchTokens: n}
	cpu := newRunner(t, goldenDir+"/"+name, opt)
	opt.Engine, opt.Device = eng, d
	r := newRunner(t, goldenDir+"/"+name, opt)
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (i*37 + i*i) % r.Config().VocabSize
	}
	want := modeltest.Feed(t, cpu.NewSequence(), cpu, ids, n)
	wide := make([]float64, len(want))
	for i, x := range want {
		wide[i] = float64(x)
	}
	for _, batch := range []int{n, 1} {
		got := modeltest.Feed(t, r.NewSequence(), r, ids, batch)
		away := modeltest.Distance(got, wide)
		t.Logf("%d tokens at a time: %.3g of their spread away", batch, away)
		if !(away <= 3e-3) {
			t.Errorf("%d tokens at a time: logits are %.3g of their spread away", batch, away)
		}
	}
}

// TestSequencesTogetherEqualAlone: sequences of several lengths, one token each, in graphs of as many; and
// prompts beside them.
func TestSequencesTogetherEqualAlone(t *testing.T) {
	eng, d := open(t)
	for _, g := range modeltest.Goldens(t, goldenDir) {
		r := newRunner(t, g.Dir, model.Options{Engine: eng, Device: d, MaxSequences: 8, PageSize: 16})
		vocab := r.Config().VocabSize
		var seqs, alone []*model.Sequence
		for _, n := range []int{9, 30, 1} {
			seqs, alone = append(seqs, r.NewSequence()), append(alone, r.NewSequence())
			for _, s := range []*model.Sequence{seqs[len(seqs)-1], alone[len(alone)-1]} {
				if err := s.Feed(context.Background(), g.IDs[:n], nil, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for step := range 20 {
			var parts []model.Part
			for i, s := range seqs {
				ids := []int{g.IDs[(step+i)%len(g.IDs)]}
				if step == 13 && i == 1 {
					ids = g.IDs[:11]
				}
				parts = append(parts, model.Part{Seq: s, IDs: ids, Logits: make([]float32, vocab)})
			}
			if err := r.Forward(context.Background(), parts...); err != nil {
				t.Fatal(err)
			}
			for i, p := range parts {
				want := make([]float32, vocab)
				if err := r.Forward(context.Background(), model.Part{Seq: alone[i], IDs: p.IDs, Logits: want}); err != nil {
					t.Fatal(err)
				}
				near(t, g.Name(), p.Logits, want)
			}
		}
	}
}

// TestFailedForwardLeavesSequences: cancelled, or out of pages, a sequence goes on as if nothing had happened.
func TestFailedForwardLeavesSequences(t *testing.T) {
	eng, d := open(t)
	ctx := context.Background()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r := newRunner(t, goldenDir+"/llama3_rope", model.Options{Engine: eng, Device: d, PageSize: 4, MaxContext: 40, MaxSequences: 2})
	seq, fresh, big := r.NewSequence(), r.NewSequence(), r.NewSequence()
	modeltest.Feed(t, seq, r, []int{1, 2, 3, 4, 5, 6}, 6)
	bytes := r.KVBytes()
	if err := r.Forward(cancelled, model.Part{Seq: seq, IDs: []int{7, 8}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want %v", err, context.Canceled)
	}
	modeltest.Feed(t, big, r, make([]int, 40), 40)
	other := r.NewSequence()
	modeltest.Feed(t, other, r, make([]int, 32), 32)
	for _, ids := range [][]int{{7, 8, 9}, {7}} {
		if err := r.Forward(ctx, model.Part{Seq: seq, IDs: ids}, model.Part{Seq: fresh, IDs: make([]int, 20)}); !errors.Is(err, kv.ErrNoPages) {
			t.Fatalf("error %v, want %v", err, kv.ErrNoPages)
		}
	}
	if err := errors.Join(big.Free(), other.Free()); err != nil {
		t.Fatal(err)
	}
	if got := r.KVBytes(); got != bytes || seq.Len() != 6 {
		t.Errorf("%d tokens in %d bytes of keys and values, want 6 in %d as before", seq.Len(), got, bytes)
	}
	got := modeltest.Feed(t, seq, r, []int{7, 8, 9}, 1)
	want := modeltest.Feed(t, fresh, r, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9)[6*r.Config().VocabSize:]
	near(t, "after failures", got, want)
}

// TestMistakes are errors that say what is wanted.
func TestMistakes(t *testing.T) {
	eng, d := open(t)
	m, err := model.Open(goldenDir + "/llama3_rope")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := model.NewRunner(m, model.Options{Engine: eng, Device: d, MaxContext: 1 << 30, MaxSequences: 1 << 10}); err == nil {
		t.Error("a cache of petabytes was made")
	}
	r, err := model.NewRunner(m, model.Options{Engine: eng, Device: d})
	if err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	if err := d.Close(); err == nil {
		t.Error("a device with an open runner was closed")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var none *gpu.Device
	if err := none.Close(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("closing none: %v", err)
	}
	if _, err := model.NewRunner(m, model.Options{Engine: eng, Device: none}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a runner on none: %v", err)
	}
	if _, err := gpu.New(nil); err == nil {
		t.Error("a device without a GPU")
	}
}
