package kv_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// stamp is the value of every element of a token: small integers, which with a
// quarter more a head every element type holds exactly.
func stamp(token int) float32 { return float32(token%61) + 1 }

// tokens makes the keys and values of tokens with the given stamps; head h adds
// 1/4·h, values are negative.
func tokens(cfg kv.Config, stamps []float32) (k, v []float32) {
	for _, s := range stamps {
		for head := range cfg.NumKVHeads {
			x := s + float32(head)/4
			k = append(k, slices.Repeat([]float32{x}, cfg.KeyDim)...)
			v = append(v, slices.Repeat([]float32{-x}, cfg.ValueDim)...)
		}
	}
	return k, v
}

// contents reads the stamps of a sequence back, and checks every element.
func contents(t interface{ Fatalf(string, ...any) }, cache *kv.Cache, seq *kv.Sequence) []float32 {
	cfg := cache.Config()
	view, err := cache.View(seq)
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	if err := view.Validate(); err != nil {
		t.Fatalf("the cache's own view: %v", err)
	}
	rows := view.Sequence(0)
	key, value := make([]float32, cfg.KeyDim), make([]float32, cfg.ValueDim)
	stamps := make([]float32, rows.Len())
	for pos := range stamps {
		for head := range cfg.NumKVHeads {
			rows.Key(key, head, pos)
			rows.Value(value, head, pos)
			if head == 0 {
				stamps[pos] = key[0]
			}
			want := stamps[pos] + float32(head)/4
			if slices.ContainsFunc(key, func(x float32) bool { return x != want }) ||
				slices.ContainsFunc(value, func(x float32) bool { return x != -want }) {
				t.Fatalf("position %d head %d holds %v and %v, want %v", pos, head, key, value, want)
			}
		}
	}
	return stamps
}

func drawConfig(t *rapid.T) kv.Config {
	types := rapid.SampledFrom([]kv.DType{kv.F32, kv.F16, kv.BF16})
	return kv.Config{
		NumKVHeads: rapid.IntRange(1, 3).Draw(t, "heads"),
		KeyDim:     rapid.IntRange(1, 5).Draw(t, "key dim"),
		ValueDim:   rapid.IntRange(1, 5).Draw(t, "value dim"),
		PageSize:   rapid.SampledFrom([]int{1, 2, 3, 7, 16}).Draw(t, "page size"),
		NumPages:   rapid.IntRange(1, 24).Draw(t, "pages"),
		Layout:     rapid.SampledFrom([]kv.Layout{kv.HND, kv.NHD}).Draw(t, "layout"),
		KeyType:    types.Draw(t, "key type"),
		ValueType:  types.Draw(t, "value type"),
	}
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
		t.Skip("no sequence")
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
		if got := contents(t, m.cache, seq); !slices.Equal(got, m.want[i]) {
			t.Fatalf("sequence %d holds %v, want %v", i, got, m.want[i])
		}
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

// run plays random operations against the model, then frees all: nothing leaks.
func run(t *rapid.T) {
	cfg := drawConfig(t)
	cache, err := kv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	m := &model{cache: cache, cfg: cfg}
	t.Repeat(map[string]func(*rapid.T){
		"add": m.add, "append": m.append, "fork": m.fork, "truncate": m.truncate, "free": m.free, "": m.check,
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

var small = kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 4, NumPages: 8}

func open(t *testing.T, cfg kv.Config) *kv.Cache {
	t.Helper()
	cache, err := kv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func appendStamps(t *testing.T, cfg kv.Config, seq *kv.Sequence, stamps ...float32) {
	t.Helper()
	if err := seq.Append(tokens(cfg, stamps)); err != nil {
		t.Fatal(err)
	}
}

// TestAppendAtCapacity is the fault of an append at capacity that writes into
// the next sequence's cache.
func TestAppendAtCapacity(t *testing.T) {
	cfg := small
	cfg.NumPages = 2
	cache := open(t, cfg)
	full, other := cache.NewSequence(), cache.NewSequence()
	appendStamps(t, cfg, full, 1, 2, 3, 4)
	appendStamps(t, cfg, other, 9)
	err := full.Append(tokens(cfg, []float32{5}))
	if !errors.Is(err, kv.ErrNoPages) || !strings.Contains(err.Error(), "1 wanted, 0 of 2 free") {
		t.Errorf("append past capacity: %v, want ErrNoPages that says so", err)
	}
	if full.Len() != 4 || !slices.Equal(contents(t, cache, other), []float32{9}) {
		t.Errorf("after it: %d tokens, other holds %v", full.Len(), contents(t, cache, other))
	}
}

// TestForksAppendAtOnce: siblings that share a partly filled page append from
// several goroutines; each copies, or is the last holder and need not.
func TestForksAppendAtOnce(t *testing.T) {
	cfg := small
	cfg.NumPages = 400
	cache := open(t, cfg)
	parent := cache.NewSequence()
	appendStamps(t, cfg, parent, 1, 2, 3, 4, 5, 6)
	var wg sync.WaitGroup
	forks := make([]*kv.Sequence, 16)
	for i := range forks {
		f, err := parent.Fork()
		if err != nil {
			t.Fatal(err)
		}
		forks[i] = f
		wg.Go(func() {
			if err := f.Truncate(5 + i%2); err != nil {
				t.Error(err)
			}
			for j := range 20 {
				if err := f.Append(tokens(cfg, []float32{float32(16 + i + j)})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, f := range forks {
		want := []float32{1, 2, 3, 4, 5, 6}[:5+i%2]
		for j := range 20 {
			want = append(want, float32(16+i+j))
		}
		if got := contents(t, cache, f); !slices.Equal(got, want) {
			t.Errorf("fork %d holds %v, want %v", i, got, want)
		}
	}
	if got := contents(t, cache, parent); !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Errorf("the parent holds %v", got)
	}
}

func TestSequenceErrors(t *testing.T) {
	cache, other := open(t, small), open(t, small)
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2)
	freed := cache.NewSequence()
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	_, forkErr := freed.Fork()
	_, viewErr := cache.View(seq, freed)
	_, otherErr := other.View(seq)
	for name, tc := range map[string]struct {
		err, kind error
		says      string
	}{
		"ragged append":  {seq.Append(make([]float32, 3), make([]float32, 2)), attn.ErrShape, "k has 3 elements and v 2"},
		"values short":   {seq.Append(make([]float32, 4), make([]float32, 2)), attn.ErrShape, "k has 4 elements and v 2"},
		"truncate up":    {seq.Truncate(3), attn.ErrShape, "2 tokens to 3"},
		"truncate below": {seq.Truncate(-1), attn.ErrShape, "to -1"},
		"append freed":   {freed.Append(nil, nil), kv.ErrFreed, "freed"},
		"truncate freed": {freed.Truncate(0), kv.ErrFreed, "freed"},
		"fork freed":     {forkErr, kv.ErrFreed, "freed"},
		"free twice":     {freed.Free(), kv.ErrFreed, "freed"},
		"view of freed":  {viewErr, kv.ErrFreed, "sequence 1 of the view"},
		"other cache's":  {otherErr, attn.ErrShape, "another cache"},
	} {
		if !errors.Is(tc.err, tc.kind) || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v with %q", name, tc.err, tc.kind, tc.says)
		}
	}
}

// TestClosedCache: nothing panics, and a view that is still around reads zeros.
func TestClosedCache(t *testing.T) {
	cache, err := kv.New(small)
	if err != nil {
		t.Fatal(err)
	}
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 7)
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	if err := seq.Append(nil, nil); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("append to a closed cache: %v, want ErrFreed", err)
	}
	if err := cache.Close(); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("close twice: %v, want ErrFreed", err)
	}
	row := make([]float32, 2)
	view.Sequence(0).Key(row, 0, 0)
}

func TestConfigRefused(t *testing.T) {
	for name, change := range map[string]func(*kv.Config){
		"KV heads is 0":             func(c *kv.Config) { c.NumKVHeads = 0 },
		"key dim is -1":             func(c *kv.Config) { c.KeyDim = -1 },
		"page size is 0":            func(c *kv.Config) { c.PageSize = 0 },
		"number of pages is 0":      func(c *kv.Config) { c.NumPages = 0 },
		"number of pages is 2":      func(c *kv.Config) { c.NumPages = 1 << 31 },
		"layout is 7":               func(c *kv.Config) { c.Layout = 7 },
		"element type DType(9)":     func(c *kv.Config) { c.KeyType = 9 },
		"more bytes than can be":    func(c *kv.Config) { c.PageSize, c.NumPages, c.KeyDim = 1<<30, 1<<30, 1<<20 },
		"16777216 pages of 1048576": func(c *kv.Config) { c.PageSize, c.NumPages = 1<<20, 1<<24 },
	} {
		cfg := small
		change(&cfg)
		if _, err := kv.New(cfg); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want ErrShape with %q", err, name)
		}
	}
}

// TestLayouts reads the stored bytes: HND keeps a head's tokens together, NHD a
// token's heads.
func TestLayouts(t *testing.T) {
	for _, tc := range []struct {
		layout kv.Layout
		want   []float32
	}{
		{kv.HND, []float32{1, 2, 1.25, 2.25}},
		{kv.NHD, []float32{1, 1.25, 2, 2.25}},
	} {
		cfg := kv.Config{NumKVHeads: 2, KeyDim: 1, ValueDim: 1, PageSize: 2, NumPages: 1, Layout: tc.layout, KeyType: kv.BF16}
		cache := open(t, cfg)
		seq := cache.NewSequence()
		appendStamps(t, cfg, seq, 1, 2)
		view, err := cache.View(seq)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tc.want {
			bits := binary.LittleEndian.Uint32([]byte{0, 0, view.K.Data[2*i], view.K.Data[2*i+1]})
			if got := bitsToFloat(bits); got != want {
				t.Errorf("layout %d element %d is %v, want %v", tc.layout, i, got, want)
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, dtype := range []kv.DType{kv.F32, kv.F16, kv.BF16} {
		b.Run("dtype="+dtype.String(), func(b *testing.B) {
			cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: 16, NumPages: 64, KeyType: dtype, ValueType: dtype}
			cache, err := kv.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer cache.Close()
			seq := cache.NewSequence()
			k, v := tokens(cfg, []float32{1})
			b.SetBytes(int64(cfg.PageBytes() / cfg.PageSize))
			for b.Loop() {
				if seq.Len() == 1024 {
					if err := seq.Truncate(0); err != nil {
						b.Fatal(err)
					}
				}
				if err := seq.Append(k, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
