package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// onHost is a view with what its planes have on the device brought to the host.
func onHost(t *testing.T, b *Backend, v kv.View) kv.View {
	t.Helper()
	for _, p := range [...]*kv.Plane{&v.K, &v.V} {
		p.Data = make([]byte, p.Device.Bytes)
		scales := p.Scales.Values
		if p.Scales.Device.Address != 0 {
			scales = make([]float32, p.Scales.Device.Bytes/4)
		}
		if err := b.Do(func() error {
			return errors.Join(
				nv.Download(b.stream, p.Data, nv.Pointer(p.Device.Address)),
				nv.Download(b.stream, scales, nv.Pointer(p.Scales.Device.Address)),
			)
		}); err != nil {
			t.Fatal(err)
		}
		p.Device, p.Scales.Device, p.Scales.Values = kv.Memory{}, kv.Memory{}, scales
	}
	return v
}

// life puts sequences through append, fork, copy on write, truncate and free.
func life(t *testing.T, c *kv.Cache, seed uint64) kv.View {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	cfg := c.Config()
	add := func(s *kv.Sequence, n int) {
		k, v := numbers(rng, n*cfg.NumKVHeads*cfg.KeyDim), numbers(rng, n*cfg.NumKVHeads*cfg.ValueDim)
		if err := s.Append(k, v); err != nil {
			t.Fatal(err)
		}
	}
	first := c.NewSequence()
	add(first, 21)
	second, err := first.Fork()
	if err != nil {
		t.Fatal(err)
	}
	add(first, 1)
	add(second, 9)
	third, err := second.Fork()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(third.Truncate(13), second.Truncate(28)); err != nil {
		t.Fatal(err)
	}
	add(third, 5)
	add(second, 2)
	gone := c.NewSequence()
	add(gone, 40)
	if err := gone.Free(); err != nil {
		t.Fatal(err)
	}
	add(first, 30)
	v, err := c.View(first, second, third)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// numbers are of all sizes; many lie halfway between two codes, a few are zero.
func numbers(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(40)-20)))
		switch k := rng.IntN(16); {
		case k == 0:
			x[i] = 0
		case k < 5: // one bit more than e5m2, e4m3, bf16 and f16 keep
			drop := [...]int{20, 19, 15, 12}[k-1]
			x[i] = math.Float32frombits((math.Float32bits(x[i])>>drop | 1) << drop)
		case k < 7: // of the integers, with a scale of a power of two
			x[i] = float32(rng.IntN(16)-8) + 0.5
		}
	}
	return x
}

// TestDeviceCacheHasTheHostsBits: what a cache on the device makes of its tokens,
// through all of a sequence's life, is what one on the host does, bit for bit, in
// every slot that holds a token.
func TestDeviceCacheHasTheHostsBits(t *testing.T) {
	b := open(t)
	for dtype := kv.F32; dtype <= kv.I4; dtype++ {
		for kind := kv.NoScales; kind <= kv.ChannelScale; kind++ {
			if (kind != kv.NoScales) != dtype.Quantised() {
				continue
			}
			for _, layout := range []kv.Layout{kv.HND, kv.NHD} {
				cfg := kv.Config{NumKVHeads: 3, KeyDim: 33, ValueDim: 20, PageSize: 8, NumPages: 30, Layout: layout, KeyType: dtype, ValueType: dtype}
				cfg.KeyScales, cfg.ValueScales = scalesFor(kind, 3, 33), scalesFor(min(kind, kv.TokenScale), 3, 20)
				t.Run(fmt.Sprint(dtype, kind, layout), func(t *testing.T) { compareCaches(t, b, cfg) })
			}
		}
	}
}

func scalesFor(kind kv.ScaleKind, heads, dim int) kv.Scales {
	s := kv.Scales{Kind: kind}
	n := map[kv.ScaleKind]int{kv.TensorScale: 1, kv.HeadScale: heads, kv.ChannelScale: heads * dim}[kind]
	for i := range n {
		s.Values = append(s.Values, [...]float32{-0.5, 1, 0.25, 0, 0.013, -2, 1e-40}[i%7])
	}
	return s
}

func compareCaches(t *testing.T, b *Backend, cfg kv.Config) {
	host, err := kv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	device := newCache(t, b, cfg)
	want, got := life(t, host, 1), life(t, device, 1)
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	read := onHost(t, b, got)
	for i, table := range want.Seqs {
		if !slices.Equal(table.Pages, got.Seqs[i].Pages) {
			t.Fatalf("sequence %d: pages %v, want %v", i, got.Seqs[i].Pages, table.Pages)
		}
		for pos := range table.Len {
			for head := range cfg.NumKVHeads {
				page, slot := table.Pages[pos/cfg.PageSize], pos%cfg.PageSize
				compareRows(t, &read.K, &want.K, page, head, slot)
				compareRows(t, &read.V, &want.V, page, head, slot)
			}
		}
	}
	if err := device.Close(); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("a view of a closed cache: %v, want ErrFreed", err)
	}
}

func compareRows(t *testing.T, got, want *kv.Plane, page kv.PageID, head, slot int) {
	t.Helper()
	at, n := want.Offset(page, head, slot), want.RowBytes()
	if !slices.Equal(got.Data[at:at+n], want.Data[at:at+n]) {
		t.Fatalf("page %d head %d slot %d: elements %x, want %x", page, head, slot, got.Data[at:at+n], want.Data[at:at+n])
	}
	if want.Scales.Kind == kv.TokenScale {
		i := want.Scales.Offset(page, head, slot)
		if x, y := got.Scales.Values[i], want.Scales.Values[i]; math.Float32bits(x) != math.Float32bits(y) {
			t.Fatalf("page %d head %d slot %d: scale %v, want %v", page, head, slot, x, y)
		}
	}
}

// newCache is a cache in the GPU's memory.
func newCache(t *testing.T, b *Backend, cfg kv.Config) *kv.Cache {
	t.Helper()
	store, err := b.NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kv.NewOn(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDeviceCacheRefusesWhatHasNoCode, and is then as it was.
func TestDeviceCacheRefusesWhatHasNoCode(t *testing.T) {
	b := open(t)
	cfg := kv.Config{
		NumKVHeads: 1, KeyDim: 8, ValueDim: 8, PageSize: 4, NumPages: 4, KeyType: kv.I8, ValueType: kv.I8,
		KeyScales: kv.Scales{Kind: kv.TensorScale}, ValueScales: kv.Scales{Kind: kv.TensorScale},
	}
	c := newCache(t, b, cfg)
	defer c.Close()
	s := c.NewSequence()
	x := make([]float32, 8)
	bad := slices.Clone(x)
	bad[3] = float32(math.NaN())
	if err := s.Append(bad, x); !errors.Is(err, kv.ErrNotFinite) || s.Len() != 0 {
		t.Errorf("%v and %d tokens, want ErrNotFinite and none", err, s.Len())
	}
	if err := s.Append(x, x); err != nil || s.Len() != 1 {
		t.Errorf("after it: %v, %d tokens", err, s.Len())
	}
}

// TestDecodeReadsDeviceCaches: without a copy of it to the host, for a backend's
// whole interface.
func TestDecodeReadsDeviceCaches(t *testing.T) {
	b := open(t)
	shape := attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: 64, ValueDim: 64}
	for _, dtype := range []kv.DType{kv.F32, kv.BF16, kv.F8E4M3, kv.I4} {
		cfg := kv.Config{NumKVHeads: 2, KeyDim: 64, ValueDim: 64, PageSize: 16, NumPages: 30, KeyType: dtype, ValueType: dtype}
		c := newCache(t, b, cfg)
		defer c.Close()
		rng := rand.New(rand.NewPCG(4, 4))
		s := c.NewSequence()
		k, v := make([]float32, 100*128), make([]float32, 100*128)
		for i := range k {
			k[i], v[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		}
		if err := s.Append(k, v); err != nil {
			t.Fatal(err)
		}
		view, err := c.View(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 100, NumQueries: 1}}, NumKVHeads: 2, GroupSize: 4, Width: 8, NumSplits: 3})
		if err != nil {
			t.Fatal(err)
		}
		l := &backend.Launch{Shape: shape, Options: &attn.Options{}, Plan: p, KV: view, Q: k[:512], Out: nan(512), LSE: nan(8)}
		if err := errors.Join(l.Validate(), b.Decode(context.Background(), l)); err != nil {
			t.Fatal(err)
		}
		l.KV = onHost(t, b, view)
		compare(t, l, tolerances[dtype])
	}
}

// TestOutOfDeviceMemory: asking for more than the card has is an error with the
// numbers, and what is open goes on.
func TestOutOfDeviceMemory(t *testing.T) {
	b := open(t)
	cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: 16, NumPages: 1 << 24, KeyType: kv.BF16, ValueType: kv.BF16}
	for range 3 { // it would run out of what is left, were anything kept
		_, err := b.NewStore(cfg)
		if !nv.Is(err, nv.OutOfMemory) || !strings.Contains(err.Error(), "are free") || !strings.Contains(err.Error(), fmt.Sprint(int64(1<<24*16*8*128*2))) {
			t.Fatalf("got %v", err)
		}
	}
	cfg.NumPages = 8
	store, err := b.NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
