package model_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// TestSlidingLayersKeepTheirWindow: the cache of a model whose layers all slide does not grow with the text,
// and what is forgotten changes no logit.
func TestSlidingLayersKeepTheirWindow(t *testing.T) {
	m := openModel(t, "testdata/golden/gemma3") // window 16, 3 layers
	const page, batch, tokens = 4, 8, 400
	r := newRunner(t, m, model.Options{PageSize: page, BatchTokens: batch})
	whole := newRunner(t, m, model.Options{PageSize: 512, BatchTokens: batch}) // one page, which cannot be dropped
	if m.Config().NumSliding() != m.Config().NumLayers() {
		t.Fatal("the model has layers that see everything")
	}
	perToken := 2 * m.Config().NumLayers() * m.Config().NumKVHeads * m.Config().HeadDim * 4
	window := m.Config().Window - 1 + page // what may be left after a Forward
	seq, other := r.NewSequence(), whole.NewSequence()
	ids := make([]int, batch)
	for n := 0; n < tokens; n += batch {
		for i := range ids {
			ids[i] = (n*7 + i*31) % m.Config().VocabSize
		}
		got, want := modeltest.Feed(t, seq, r, ids, batch), modeltest.Feed(t, other, whole, ids, batch)
		for i := range got {
			if d := got[i] - want[i]; d > 1e-4 || d < -1e-4 {
				t.Fatalf("after %d tokens logit %d is %v, want %v", n, i, got[i], want[i])
			}
		}
		if bytes := r.KVBytes(); bytes > window*perToken {
			t.Fatalf("after %d tokens %d bytes of keys and values are kept, want at most %d", n+batch, bytes, window*perToken)
		}
	}
	if seq.Len() != tokens {
		t.Errorf("the sequence has %d tokens, want %d", seq.Len(), tokens)
	}
}

// TestSequencesTogetherEqualAlone: what a batch computes for a sequence is what it computes for it alone.
func TestSequencesTogetherEqualAlone(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.Name(), func(t *testing.T) {
			r := newRunner(t, openModel(t, g.Dir), model.Options{MaxSequences: 3, Invariant: true})
			vocab := r.Config().VocabSize
			texts := [][]int{g.IDs[:9], g.IDs[3:], {5}}
			var parts []model.Part
			for _, ids := range texts {
				parts = append(parts, model.Part{Seq: r.NewSequence(), IDs: ids, Logits: make([]float32, len(ids)*vocab)})
			}
			parts = append(parts, model.Part{Seq: r.NewSequence()})
			if err := r.Forward(context.Background(), parts...); err != nil {
				t.Fatal(err)
			}
			for i, ids := range texts {
				alone := r.NewSequence()
				want := modeltest.Feed(t, alone, r, ids, len(ids))
				if !slices.Equal(parts[i].Logits, want) {
					t.Errorf("sequence %d of the batch has other logits than alone", i)
				}
				last := make([]float32, vocab)
				again := r.NewSequence()
				if err := again.Feed(context.Background(), ids, last, nil); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(last, want[len(want)-vocab:]) {
					t.Errorf("the last logits of sequence %d are not the last of all", i)
				}
				if err := errors.Join(alone.Free(), again.Free()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestFailedForwardLeavesSequences: cancelled, or out of pages in the middle of the layers, a sequence goes on
// as if nothing had happened.
func TestFailedForwardLeavesSequences(t *testing.T) {
	for _, dir := range []string{"testdata/golden/gemma2", "testdata/golden/llama3_rope"} {
		r := newRunner(t, openModel(t, dir), model.Options{PageSize: 4, MaxContext: 40})
		seq, fresh := r.NewSequence(), r.NewSequence()
		modeltest.Feed(t, seq, r, []int{1, 2, 3, 4, 5, 6}, 6)
		bytes := r.KVBytes()
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.Forward(cancelled, model.Part{Seq: seq, IDs: []int{7, 8}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: error %v, want %v", dir, err, context.Canceled)
		}
		big := r.NewSequence()
		modeltest.Feed(t, big, r, make([]int, 32), 32)
		if err := r.Forward(context.Background(), model.Part{Seq: seq, IDs: []int{7, 8, 9, 10}}); !errors.Is(err, kv.ErrNoPages) {
			t.Fatalf("%s: error %v, want %v", dir, err, kv.ErrNoPages)
		}
		if err := big.Free(); err != nil {
			t.Fatal(err)
		}
		if got := r.KVBytes(); got != bytes {
			t.Errorf("%s: %d bytes of keys and values, want %d as before", dir, got, bytes)
		}
		if seq.Len() != 6 {
			t.Errorf("%s: the sequence has %d tokens, want 6", dir, seq.Len())
		}
		got := modeltest.Feed(t, seq, r, []int{7, 8, 9}, 3)
		want := modeltest.Feed(t, fresh, r, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9)[6*r.Config().VocabSize:]
		for i := range got {
			if d := got[i] - want[i]; d > 1e-5 || d < -1e-5 {
				t.Fatalf("%s: logit %d is %v, want %v", dir, i, got[i], want[i])
			}
		}
	}
}

// TestCallersMistakes are errors, never a panic.
func TestCallersMistakes(t *testing.T) {
	m := openModel(t, smallest)
	r, other := newRunner(t, m, model.Options{MaxContext: 8, BatchTokens: 4}), newRunner(t, m, model.Options{})
	seq, freed := r.NewSequence(), r.NewSequence()
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	modeltest.Feed(t, seq, r, []int{1, 2, 3, 4, 5}, 4)
	_, noEngine := model.NewRunner(m, model.Options{})
	_, threads := model.NewRunner(m, model.Options{Engine: r.Options().Engine, Threads: -1})
	_, pages := model.NewRunner(m, model.Options{Engine: r.Options().Engine, PageSize: 1, MaxSequences: 1 << 16, MaxContext: 1 << 20})
	forward := func(parts ...model.Part) error { return r.Forward(context.Background(), parts...) }
	for name, c := range map[string]struct{ err, kind error }{
		"no engine":          {noEngine, model.ErrInput},
		"negative threads":   {threads, model.ErrInput},
		"no sequence":        {forward(model.Part{IDs: []int{1}}), model.ErrInput},
		"another runner's":   {forward(model.Part{Seq: other.NewSequence(), IDs: []int{1}}), model.ErrInput},
		"freed":              {forward(model.Part{Seq: freed, IDs: []int{1}}), model.ErrInput},
		"freed twice":        {freed.Free(), model.ErrInput},
		"negative token":     {forward(model.Part{Seq: seq, IDs: []int{-1}}), model.ErrInput},
		"token too high":     {forward(model.Part{Seq: seq, IDs: []int{384}}), model.ErrInput},
		"room for 3 logits":  {forward(model.Part{Seq: seq, IDs: []int{1}, Logits: make([]float32, 3)}), model.ErrInput},
		"logits of no token": {forward(model.Part{Seq: seq, Logits: make([]float32, 384)}), model.ErrInput},
		"twice":              {forward(model.Part{Seq: seq, IDs: []int{1}}, model.Part{Seq: seq, IDs: []int{1}}), model.ErrInput},
		"batch too large":    {forward(model.Part{Seq: r.NewSequence(), IDs: make([]int, 5)}), model.ErrInput},
		"context full":       {forward(model.Part{Seq: seq, IDs: make([]int, 4)}), model.ErrContext},
		"a petabyte":         {pages, nil},
	} {
		if c.err == nil || c.kind != nil && !errors.Is(c.err, c.kind) {
			t.Errorf("%s: error %v, want %v", name, c.err, c.kind)
		}
	}
	if err := forward(model.Part{Seq: seq}, model.Part{Seq: r.NewSequence()}); err != nil {
		t.Errorf("no tokens: %v", err)
	}
	if seq.Len() != 5 {
		t.Errorf("the sequence has %d tokens, want 5", seq.Len())
	}
}

// TestFeedTellsItsProgress: batches are counted, and a long text arrives whole.
func TestFeedTellsItsProgress(t *testing.T) {
	r := newRunner(t, openModel(t, smallest), model.Options{BatchTokens: 4})
	var done []int
	seq := r.NewSequence()
	if err := seq.Feed(context.Background(), make([]int, 10), nil, func(n int) { done = append(done, n) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done, []int{4, 8, 10}) || seq.Len() != 10 {
		t.Errorf("progress %v and %d tokens, want [4 8 10] and 10", done, seq.Len())
	}
	if s := r.Stats(); s.Tokens != 10 || !(s.Attention > 0 && s.Attention < s.Seconds) {
		t.Errorf("stats %+v of 10 tokens", s)
	}
}

// TestClosedInTheWrongOrder: a model whose runner is open stays mapped, and what is closed says so.
func TestClosedInTheWrongOrder(t *testing.T) {
	m, err := model.Open(smallest)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := flashdec.Open(flashdec.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	r, err := model.NewRunner(m, model.Options{Engine: eng})
	if err != nil {
		t.Fatal(err)
	}
	seq := r.NewSequence()
	if err := m.Close(); !errors.Is(err, model.ErrInput) {
		t.Errorf("closing a model in use: %v, want %v", err, model.ErrInput)
	}
	modeltest.Feed(t, seq, r, []int{1, 2}, 2) // reads the weights
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, forked := seq.Fork()
	for name, err := range map[string]error{
		"fork":        forked,
		"forward":     r.Forward(context.Background(), model.Part{Seq: seq, IDs: []int{1}}),
		"free":        seq.Free(),
		"close again": r.Close(),
	} {
		if !errors.Is(err, model.ErrInput) {
			t.Errorf("%s on a closed runner: %v, want %v", name, err, model.ErrInput)
		}
	}
	if err := m.Close(); err != nil {
		t.Errorf("closing a model that nobody uses: %v", err)
	}
	if _, err := model.NewRunner(m, model.Options{Engine: eng}); !errors.Is(err, model.ErrInput) {
		t.Errorf("a runner of a closed model: %v, want %v", err, model.ErrInput)
	}
	if err := m.Close(); !errors.Is(err, model.ErrInput) {
		t.Errorf("closing again: %v, want %v", err, model.ErrInput)
	}
}

// TestFeedRefusesAtOnce: a text that is too long, or has no token in it somewhere, costs no batch and leaves the sequence.
func TestFeedRefusesAtOnce(t *testing.T) {
	r := newRunner(t, openModel(t, smallest), model.Options{MaxContext: 30, BatchTokens: 8})
	seq := r.NewSequence()
	late := make([]int, 20)
	late[19] = -1
	for _, c := range []struct {
		ids  []int
		want error
	}{{make([]int, 31), model.ErrContext}, {late, model.ErrInput}} {
		told := 0
		err := seq.Feed(context.Background(), c.ids, nil, func(int) { told++ })
		if !errors.Is(err, c.want) || seq.Len() != 0 || told != 0 {
			t.Errorf("%d tokens: %v after %d batches, %d kept, want %v at once", len(c.ids), err, told, seq.Len(), c.want)
		}
	}
	if err := seq.Feed(context.Background(), make([]int, 30), nil, nil); err != nil {
		t.Errorf("as many as fit: %v", err)
	}
}

// TestNoRoomForForksSaysWhatGivesIt: they differ, and the runner has pages for one context.
func TestNoRoomForForksSaysWhatGivesIt(t *testing.T) {
	r := newRunner(t, openModel(t, smallest), model.Options{MaxContext: 32, PageSize: 8})
	seq := r.NewSequence()
	if err := seq.Feed(context.Background(), make([]int, 20), nil, nil); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 3 {
		fork, forked := seq.Fork()
		if forked != nil {
			t.Fatal(forked)
		}
		err = errors.Join(err, fork.Feed(context.Background(), make([]int, 8), nil, nil))
	}
	if !errors.Is(err, kv.ErrNoPages) || !strings.Contains(err.Error(), "1 × 32 tokens (Options.MaxSequences") {
		t.Errorf("%v, want %v, and which option gives more", err, kv.ErrNoPages)
	}
}

// TestRunnerOfAClosedEngine: it is refused at once, not at the first token, and holds nothing of the model.
func TestRunnerOfAClosedEngine(t *testing.T) {
	m, err := model.Open(smallest)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := flashdec.Open(flashdec.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := model.NewRunner(m, model.Options{Engine: eng}); !errors.Is(err, flashdec.ErrClosed) {
		t.Errorf("a runner of a closed engine: %v, want %v", err, flashdec.ErrClosed)
	}
	if err := m.Close(); err != nil {
		t.Errorf("closing a model that nobody uses: %v", err)
	}
}

// TestMakeUpOutOfPagesLeavesTheSequence: where the caches of one kind have pages left and those of another have none,
// none gets tokens, so that the sequence goes on once there are pages, as one does that never failed.
func TestMakeUpOutOfPagesLeavesTheSequence(t *testing.T) {
	for _, name := range []string{"gemma2", "gpt_oss"} { // layers with a window, and without
		m := openModel(t, "testdata/golden/"+name)
		const tokens, batch = 64, 8
		r := newRunner(t, m, model.Options{PageSize: 4, MaxContext: tokens, BatchTokens: batch, MaxSequences: 2})
		full, seq := r.NewSequence(), r.NewSequence()
		if err := errors.Join(full.MakeUp(tokens, 1), seq.MakeUp(tokens-batch, 2)); err != nil {
			t.Fatal(err)
		}
		fork, err := seq.Fork()
		if err != nil {
			t.Fatal(err)
		}
		if err := fork.MakeUp(batch, 3); err != nil { // the last pages
			t.Fatal(err)
		}
		before, held := seq.Len(), r.KVBytes()
		if err := seq.MakeUp(batch, 3); !errors.Is(err, kv.ErrNoPages) {
			t.Fatalf("%s: without pages: error %v, want ErrNoPages", name, err)
		}
		if seq.Len() != before || r.KVBytes() != held {
			t.Errorf("%s: the sequence has %d tokens, and %d bytes are held, want %d and %d as before", name, seq.Len(), r.KVBytes(), before, held)
		}
		var logits [2][]float32
		if err := errors.Join(full.Free(), fork.Free()); err != nil {
			t.Fatal(err)
		}
		fresh := r.NewSequence()
		if err := fresh.MakeUp(tokens-batch, 2); err != nil {
			t.Fatal(err)
		}
		for i, s := range []*model.Sequence{seq, fresh} {
			logits[i] = make([]float32, m.Config().VocabSize)
			if err := r.Forward(t.Context(), model.Part{Seq: s, IDs: []int{1}, Logits: logits[i]}); err != nil {
				t.Errorf("%s: with pages again: %v", name, err)
			}
		}
		if !slices.Equal(logits[0], logits[1]) {
			t.Errorf("%s: the logits are not those of a sequence that never failed", name)
		}
	}
}

// TestMadeUpTokensAreTokens: they count, windows slide over them, and a text goes on after them; with the same
// seed they are the same.
func TestMadeUpTokensAreTokens(t *testing.T) {
	m := openModel(t, "testdata/golden/gemma3") // window 16, 3 layers
	const page, batch, tokens = 4, 8, 101
	r := newRunner(t, m, model.Options{PageSize: page, BatchTokens: batch, MaxContext: tokens + 2, MaxSequences: 2})
	logits := [2][]float32{make([]float32, m.Config().VocabSize), make([]float32, m.Config().VocabSize)}
	for i := range logits {
		seq := r.NewSequence()
		if err := seq.MakeUp(tokens, 7); err != nil {
			t.Fatal(err)
		}
		if seq.Len() != tokens {
			t.Errorf("the sequence has %d tokens, want %d", seq.Len(), tokens)
		}
		window := m.Config().Window - 1 + 2*page // begun pages on both sides
		if bytes, most := r.KVBytes(), (i+1)*window*2*m.Config().NumLayers()*m.Config().NumKVHeads*m.Config().HeadDim*4; bytes > most {
			t.Errorf("%d bytes of keys and values are kept, want at most %d", bytes, most)
		}
		if err := r.Forward(context.Background(), model.Part{Seq: seq, IDs: []int{1}, Logits: logits[i]}); err != nil {
			t.Fatal(err)
		}
		if err := seq.MakeUp(2, 0); !errors.Is(err, model.ErrContext) {
			t.Errorf("beyond the context: error %v, want ErrContext", err)
		}
		if err := seq.MakeUp(-1, 0); !errors.Is(err, model.ErrInput) {
			t.Errorf("a negative number: error %v, want ErrInput", err)
		}
	}
	if !slices.Equal(logits[0], logits[1]) || logits[0][0] != logits[0][0] {
		t.Error("after the same made-up tokens the logits differ, or are NaN")
	}
	if err := new(model.Sequence).MakeUp(1, 0); !errors.Is(err, model.ErrInput) {
		t.Errorf("a sequence that was never made: error %v, want ErrInput", err)
	}
}
