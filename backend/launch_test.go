package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// launch is a valid step: lengths 20 and 5, 2 and 1 queries, 4 heads of 2 KV
// heads, dims 3 and 2.
func launch(t *testing.T) *backend.Launch {
	t.Helper()
	cfg := plan.Config{
		Seqs:       []plan.Seq{{Len: 20, NumQueries: 2}, {Len: 5, NumQueries: 1}},
		NumKVHeads: 2, GroupSize: 2, Width: 2,
	}
	p, err := plan.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const pages, size, heads = 4, 8, 2
	plane := func(dim int) kv.Plane {
		return kv.Plane{
			Type: kv.F32, Dim: dim, Data: make([]byte, 4*pages*size*heads*dim),
			PageStride: size * heads * dim, HeadStride: size * dim, SlotStride: dim,
		}
	}
	return &backend.Launch{
		Shape:   attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 3, ValueDim: 2},
		Options: &attn.Options{},
		Plan:    p,
		KV: kv.View{
			K: plane(3), V: plane(2), NumKVHeads: heads, PageSize: size, NumPages: pages,
			Seqs: []kv.Table{{Pages: []kv.PageID{3, 0, 1}, Len: 20}, {Pages: []kv.PageID{2}, Len: 5}},
		},
		Q:   make([]float32, 3*4*3),
		Out: make([]float32, 3*4*2),
		LSE: make([]float32, 3*4),
	}
}

func TestLaunchIsValid(t *testing.T) {
	l := launch(t)
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	if n := l.NumQueries(); n != 3 {
		t.Errorf("%d queries, want 3", n)
	}
	l.LSE = nil
	if err := l.Validate(); err != nil {
		t.Errorf("without an LSE: %v", err)
	}
	states := attn.MakeStates(12, 2)
	l.States, l.Out = &states, nil
	if err := l.Validate(); err != nil {
		t.Errorf("states in place of outputs: %v", err)
	}
}

// TestChangedPlan: a plan that somebody has written to is not decoded.
func TestChangedPlan(t *testing.T) {
	for name, change := range map[string]func(p *plan.Plan){
		"another sequence": func(p *plan.Plan) { p.Items[0].Seq = 7 },
		"no items":         func(p *plan.Plan) { p.Items = p.Items[:0] },
		"fewer rows":       func(p *plan.Plan) { p.Rows = -1 },
		"another unit":     func(p *plan.Plan) { p.Items[0].Unit++ },
		"a row":            func(p *plan.Plan) { p.Items[0].Row = 5 },
		"a border":         func(p *plan.Plan) { p.Items[0].Begin++ },
		"more queries":     func(p *plan.Plan) { p.Items[0].NumQueries++ },
		"a query tile":     func(p *plan.Plan) { p.Config.QueryTile = -1 },
	} {
		l := launch(t)
		change(l.Plan)
		if err := l.Validate(); !errors.Is(err, attn.ErrShape) && !errors.Is(err, attn.ErrOption) {
			t.Errorf("%s: %v, want ErrShape or ErrOption", name, err)
		}
	}
}

func TestLaunchOfNothingIsValid(t *testing.T) {
	for _, seqs := range [][]plan.Seq{nil, {{Len: 0}}, {{Len: 20}}} {
		l := launch(t)
		p, err := plan.New(plan.Config{Seqs: seqs, NumKVHeads: 2, GroupSize: 2, Width: 2})
		if err != nil {
			t.Fatal(err)
		}
		l.Plan, l.Q, l.Out, l.LSE = p, nil, nil, nil
		l.KV.Seqs = l.KV.Seqs[:len(seqs)]
		for i := range seqs {
			l.KV.Seqs[i].Len = seqs[i].Len
		}
		if err := l.Validate(); err != nil {
			t.Errorf("%v: %v", seqs, err)
		}
	}
}

// TestLaunchRefuses: one thing is wrong at a time, and the error names it with
// what came.
func TestLaunchRefuses(t *testing.T) {
	for _, x := range []struct {
		says  string
		kind  error
		spoil func(*backend.Launch)
	}{
		{"no plan", attn.ErrShape, func(l *backend.Launch) { l.Plan = nil }},
		{"no options", attn.ErrOption, func(l *backend.Launch) { l.Options = nil }},
		{"5 query heads", attn.ErrShape, func(l *backend.Launch) { l.Shape.NumHeads = 5 }},
		{"softcap is -1", attn.ErrOption, func(l *backend.Launch) { l.Options.Softcap = -1 }},
		{"1 sinks", attn.ErrShape, func(l *backend.Launch) { l.Options.Sinks = make([]float32, 1) }},
		{"groups of 2, want 2 in groups of 3", attn.ErrShape, func(l *backend.Launch) { l.Shape.NumHeads = 6 }},
		{"window 0, want false and 7", attn.ErrOption, func(l *backend.Launch) { l.Options.Window = 7 }},
		{"causal false", attn.ErrOption, func(l *backend.Launch) { l.Options.Causal = true }},
		{"20 keys in sequence 0, the cache 21", attn.ErrShape, func(l *backend.Launch) { l.KV.Seqs[0].Len = 21 }},
		{"2 sequences, the cache's view has 1", attn.ErrShape, func(l *backend.Launch) { l.KV.Seqs = l.KV.Seqs[:1] }},
		{"the cache has 3 KV heads, want 2", attn.ErrShape, func(l *backend.Launch) { l.KV.NumKVHeads = 3 }},
		{"key dim is 4", attn.ErrShape, func(l *backend.Launch) { l.KV.K.Dim = 4 }},
		{"value dim 1", attn.ErrShape, func(l *backend.Launch) { l.KV.V.Dim = 1 }},
		{"page 4", kv.ErrPage, func(l *backend.Launch) { l.KV.Seqs[1].Pages[0] = 4 }},
		{"20 keys", kv.ErrCapacity, func(l *backend.Launch) { l.KV.Seqs[0].Pages = l.KV.Seqs[0].Pages[:2] }},
		{"too few", attn.ErrShape, func(l *backend.Launch) { l.KV.V.Data = l.KV.V.Data[:100] }},
		{"mask of 2 queries", attn.ErrShape, func(l *backend.Launch) {
			l.Options.Mask = &attn.Mask{Seqs: 1, Queries: 2, Keys: 20, Visible: make([]uint8, 40)}
		}},
		{"q has 35 elements, want 36", attn.ErrShape, func(l *backend.Launch) { l.Q = l.Q[:35] }},
		{"out has 0 elements, want 24", attn.ErrShape, func(l *backend.Launch) { l.Out = nil }},
		{"lse has 11 elements, want 12", attn.ErrShape, func(l *backend.Launch) { l.LSE = l.LSE[:11] }},
		{"value dim 3, want 2", attn.ErrShape, func(l *backend.Launch) {
			states := attn.MakeStates(12, 3)
			l.States = &states
		}},
		{"the states' m has 11 elements, want 12", attn.ErrShape, func(l *backend.Launch) {
			states := attn.MakeStates(11, 2)
			l.States = &states
		}},
	} {
		l := launch(t)
		x.spoil(l)
		err := l.Validate()
		if !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("got %v, want %v with %q", err, x.kind, x.says)
		}
	}
}

// TestLaunchRefusesAStalePlan: a cache that grew since the step was planned.
func TestLaunchRefusesAStalePlan(t *testing.T) {
	for _, lens := range [][2]int{{16, 16}, {4096, 1}, {0, 5}, {20, 6}} {
		l := launch(t)
		l.KV.Seqs[0].Len, l.KV.Seqs[1].Len = lens[0], lens[1]
		if err := l.Validate(); !errors.Is(err, attn.ErrShape) {
			t.Errorf("a plan for 20 and 5 keys with a cache of %v: %v", lens, err)
		}
	}
}
