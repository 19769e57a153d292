package kv_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/kv"
)

// stamp is the value of every element of a token: small integers, which with a
// quarter more a head every element type holds exactly.
func stamp(token int) float32 { return float32(token%61) + 1 }

// shares are what the elements of a row are of its stamp, in turn: exact in
// every element type but the quantised ones.
var shares = []float32{1, -0.5, 0, 0.25}

// tokens makes the keys and values of tokens with the given stamps; head h adds
// 1/4·h, values are negative.
func tokens(cfg kv.Config, stamps []float32) (k, v []float32) {
	for _, s := range stamps {
		for head := range cfg.NumKVHeads {
			x := s + float32(head)/4
			for d := range cfg.KeyDim {
				k = append(k, x*shares[d%len(shares)])
			}
			for d := range cfg.ValueDim {
				v = append(v, -x*shares[d%len(shares)])
			}
		}
	}
	return k, v
}

// holds checks every element of a sequence against the tokens that it should
// hold, within half a step of its type.
func holds(t interface{ Fatalf(string, ...any) }, cache *kv.Cache, seq *kv.Sequence, stamps ...float32) {
	cfg := cache.Config()
	view, err := cache.View(seq)
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	if err := view.Validate(); err != nil {
		t.Fatalf("the cache's own view: %v", err)
	}
	rows := view.Sequence(0)
	if rows.Len() != len(stamps) {
		t.Fatalf("%d tokens, want %v", rows.Len(), stamps)
	}
	k, v := tokens(cfg, stamps)
	key, value := make([]float32, cfg.KeyDim), make([]float32, cfg.ValueDim)
	for pos := range stamps {
		for head := range cfg.NumKVHeads {
			rows.Key(key, head, pos)
			rows.Value(value, head, pos)
			if !near(key, k[:cfg.KeyDim], &view.K, head) || !near(value, v[:cfg.ValueDim], &view.V, head) {
				t.Fatalf("position %d head %d holds %v and %v, want %v and %v", pos, head, key, value, k[:cfg.KeyDim], v[:cfg.ValueDim])
			}
			k, v = k[cfg.KeyDim:], v[cfg.ValueDim:]
		}
	}
}

func drawConfig(t *rapid.T) kv.Config {
	cfg := kv.Config{
		NumKVHeads: rapid.IntRange(1, 3).Draw(t, "heads"),
		KeyDim:     rapid.IntRange(1, 5).Draw(t, "key dim"),
		ValueDim:   rapid.IntRange(1, 5).Draw(t, "value dim"),
		PageSize:   rapid.SampledFrom([]int{1, 2, 3, 7, 16}).Draw(t, "page size"),
		NumPages:   rapid.IntRange(1, 24).Draw(t, "pages"),
		Layout:     rapid.SampledFrom([]kv.Layout{kv.HND, kv.NHD}).Draw(t, "layout"),
		KeyType:    rapid.SampledFrom(types).Draw(t, "key type"),
		ValueType:  rapid.SampledFrom(types).Draw(t, "value type"),
	}
	if cfg.KeyType.Quantised() {
		cfg.KeyScales = calibrated(rapid.SampledFrom(keyKinds).Draw(t, "key scales"), cfg.KeyType, cfg.NumKVHeads, cfg.KeyDim)
	}
	if cfg.ValueType.Quantised() {
		cfg.ValueScales = calibrated(rapid.SampledFrom(valueKinds).Draw(t, "value scales"), cfg.ValueType, cfg.NumKVHeads, cfg.ValueDim)
	}
	return cfg
}

// model is a cache beside what it should hold.
type model struct {
	cache *kv.Cache
	cfg   kv.Config
	seqs  []*kv.Sequence
	want  [][]float32
	next  int
}

func (m *model) pick(t *rapid.T) int {
	if len(m.seqs) == 0 {
		m.add(t) // skipping instead would let a fuzzer run out of actions
	}
	return rapid.IntRange(0, len(m.seqs)-1).Draw(t, "sequence")
}

func (m *model) add(t *rapid.T) {
	m.seqs, m.want = append(m.seqs, m.cache.NewSequence()), append(m.want, nil)
}

func (m *model) append(t *rapid.T) {
	i := m.pick(t)
	stamps := make([]float32, rapid.IntRange(0, 20).Draw(t, "tokens"))
	for j := range stamps {
		stamps[j] = stamp(m.next)
		m.next++
	}
	before := m.cache.Stats()
	k, v := tokens(m.cfg, stamps)
	switch err := m.seqs[i].Append(k, v); {
	case err == nil:
		m.want[i] = append(slices.Clip(m.want[i]), stamps...)
	case !errors.Is(err, kv.ErrNoPages):
		t.Fatalf("append: %v", err)
	case m.cache.Stats() != before:
		t.Fatalf("a failed append changed %+v to %+v", before, m.cache.Stats())
	case before.Used+len(stamps)/m.cfg.PageSize+2 <= before.Pages:
		t.Fatalf("append of %d tokens: %v, but %+v", len(stamps), err, before)
	}
}

func (m *model) fork(t *rapid.T) {
	i := m.pick(t)
	f, err := m.seqs[i].Fork()
	if err != nil {
		t.Fatal(err)
	}
	m.seqs, m.want = append(m.seqs, f), append(m.want, slices.Clone(m.want[i]))
}

func (m *model) truncate(t *rapid.T) {
	i := m.pick(t)
	n := rapid.IntRange(0, len(m.want[i])).Draw(t, "keep")
	if err := m.seqs[i].Truncate(n); err != nil {
		t.Fatal(err)
	}
	m.want[i] = m.want[i][:n:n]
}

func (m *model) forget(t *rapid.T) {
	i := m.pick(t)
	n := rapid.IntRange(0, len(m.want[i])).Draw(t, "before")
	gone, err := m.seqs[i].Forget(n)
	if err != nil || gone != n-n%m.cfg.PageSize {
		t.Fatalf("forgetting before %d: %d tokens went, %v", n, gone, err)
	}
	m.want[i] = m.want[i][gone:]
}

func (m *model) free(t *rapid.T) {
	i := m.pick(t)
	if err := m.seqs[i].Free(); err != nil {
		t.Fatal(err)
	}
	m.seqs, m.want = slices.Delete(m.seqs, i, i+1), slices.Delete(m.want, i, i+1)
}

// check compares every sequence and recounts the pages.
func (m *model) check(t *rapid.T) {
	holders := map[kv.PageID]int{}
	for i, seq := range m.seqs {
		holds(t, m.cache, seq, m.want[i]...)
		view, _ := m.cache.View(seq)
		if need := (len(m.want[i]) + m.cfg.PageSize - 1) / m.cfg.PageSize; len(view.Seqs[0].Pages) != need {
			t.Fatalf("sequence %d of %d tokens holds %d pages, want %d", i, len(m.want[i]), len(view.Seqs[0].Pages), need)
		}
		for _, p := range view.Seqs[0].Pages {
			holders[p]++
		}
	}
	shared := 0
	for _, n := range holders {
		if n > 1 {
			shared++
		}
	}
	want := kv.Stats{Pages: m.cfg.NumPages, Used: len(holders), Shared: shared, Bytes: len(holders) * m.cfg.PageBytes()}
	if got := m.cache.Stats(); got != want {
		t.Fatalf("stats are %+v, want %+v", got, want)
	}
}

// poison makes every element of the pages that have never been used a NaN, where
// its type has one, and every scale of a token too.
func poison(t *rapid.T, cache *kv.Cache) {
	view, err := cache.View()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []kv.Plane{view.K, view.V} {
		for i := range p.Data {
			p.Data[i] = 0xff
		}
		if p.Scales.Kind == kv.TokenScale {
			for i := range p.Scales.Values {
				p.Scales.Values[i] = nan
			}
		}
	}
}

// run plays random operations against the model, then frees all: nothing leaks.
func run(t *rapid.T) {
	cfg := drawConfig(t)
	cache, err := kv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	poison(t, cache)
	m := &model{cache: cache, cfg: cfg}
	t.Repeat(map[string]func(*rapid.T){
		"add": m.add, "append": m.append, "fork": m.fork, "truncate": m.truncate, "forget": m.forget, "free": m.free, "": m.check,
	})
	for len(m.seqs) > 0 {
		if err := m.seqs[0].Free(); err != nil {
			t.Fatal(err)
		}
		m.seqs = m.seqs[1:]
	}
	if s := cache.Stats(); s.Used != 0 || s.Shared != 0 {
		t.Fatalf("all is freed, but stats are %+v", s)
	}
}

func TestCacheEqualsModel(t *testing.T) { rapid.Check(t, run) }

func FuzzCache(f *testing.F) { f.Fuzz(rapid.MakeFuzz(run)) }
