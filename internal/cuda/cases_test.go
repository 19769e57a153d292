package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// trap is a failure that decode-attention systems have had: steps that are right
// when they equal the direct softmax. What each is about is its name.
type trap struct {
	name     string
	problems []problem
	edit     func(*backend.Launch) // changes what problems are random in
	value    float64               // the largest |v|, if not about 4
}

func heads(q, kv, dim int) attn.Shape {
	return attn.Shape{NumHeads: q, NumKVHeads: kv, KeyDim: dim, ValueDim: dim}
}

// of is the problem for each of some numbers.
func of(numbers []int, p func(n int) problem) (ps []problem) {
	for _, n := range numbers {
		ps = append(ps, p(n))
	}
	return ps
}

func traps() []trap {
	one := func(s attn.Shape, dtype kv.DType, page, splits int, lens ...int) problem {
		return problem{shape: s, dtype: dtype, pageSize: page, splits: splits, lens: lens, queries: slices.Repeat([]int{1}, len(lens))}
	}
	with := func(p problem, edit func(*problem)) problem { edit(&p); return p }
	upTo := func(n, step int) (xs []int) {
		for i := 1; i <= n; i += step {
			xs = append(xs, i)
		}
		return xs
	}
	return []trap{
		{name: "01 merge of empty states", problems: []problem{with(one(heads(1, 1, 64), kv.F16, 16, 3, 60), func(p *problem) {
			p.opt.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 60, Visible: make([]uint8, 60)} // all hidden, in three splits
		}), with(one(heads(1, 1, 64), kv.BF16, 16, 3, 60), func(p *problem) {
			p.opt.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 60, Visible: append(make([]uint8, 20), slices.Repeat([]uint8{1}, 40)...)}
		})}},
		{name: "02 empty prefix and empty suffix", problems: []problem{one(heads(4, 4, 64), kv.F16, 16, 2, 0, 33, 1)}},
		{name: "03 no context has LSE −Inf", problems: []problem{one(heads(4, 2, 64), kv.BF16, 16, 0, 0, 32)}},
		{name: "04 first tiles fully masked", problems: []problem{with(one(heads(1, 1, 8), kv.F32, 16, 1, 600), func(p *problem) {
			p.opt.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 600, Visible: append(make([]uint8, 512), slices.Repeat([]uint8{1}, 88)...)}
		})}},
		{name: "05 split sizes beside the tile", problems: append(of(upTo(500, 7), func(n int) problem { return one(heads(2, 1, 128), kv.F16, 1, n, 500) }),
			of(upTo(80, 3), func(n int) problem { return one(heads(2, 1, 128), kv.BF16, 8, n, 500) })...)},
		{name: "06 nothing to do", problems: []problem{
			one(heads(2, 1, 64), kv.F16, 16, 0), one(heads(2, 1, 64), kv.F16, 16, 0, 0, 0, 0),
			with(one(heads(2, 1, 64), kv.F16, 16, 0, 5, 7), func(p *problem) { p.queries = []int{0, 0} }),
		}},
		{name: "07 ragged, paged, two splits", problems: []problem{one(heads(4, 4, 64), kv.F16, 256, 2, 300, 500)}},
		{name: "08 several queries, odd dim", problems: []problem{with(one(heads(3, 3, 40), kv.F16, 16, 3, 90, 130), func(p *problem) { p.queries = []int{2, 2} })}},
		{name: "09 a window smaller than a split", problems: []problem{with(one(heads(4, 2, 128), kv.BF16, 16, 2, 4096), func(p *problem) { p.opt.Window = 32 })}},
		{name: "10 groups of 7 over tiles of rows", problems: []problem{with(one(heads(28, 4, 128), kv.BF16, 1, 5, 512, 100, 100), func(p *problem) { p.queries = []int{17, 1, 3}; p.opt.Causal = true })}},
		{name: "13 two queries a sequence", problems: []problem{with(one(heads(32, 8, 128), kv.BF16, 16, 0, slices.Repeat([]int{400}, 33)...), func(p *problem) {
			p.queries = slices.Repeat([]int{2}, 33)
		})}},
		{
			name: "14 padding keys of the last tile", problems: of(upTo(600, 11), func(n int) problem { return one(heads(2, 1, 128), kv.BF16, 16, 0, n) }),
			edit: func(l *backend.Launch) { clear(l.Q) },
		},
		{name: "19 poison in unused pages and table entries", problems: []problem{
			one(heads(4, 2, 64), kv.BF16, 16, 0, 17, 0, 64),
			with(one(heads(4, 2, 64), kv.F8E4M3, 16, 3, 17, 0, 64), scaled(kv.TokenScale, kv.TokenScale)),
		}},
		{name: "20 tiles over several pages", problems: of([]int{1, 8, 16, 24, 32}, func(n int) problem { return one(heads(4, 2, 256), kv.F16, n, 3, 300) })},
		{
			name: "23 softcap of large scores", problems: []problem{
				with(one(heads(2, 1, 64), kv.BF16, 16, 2, 100), func(p *problem) { p.opt.Softcap = 50 }),
				with(one(heads(2, 1, 64), kv.F32, 16, 2, 100), func(p *problem) { p.opt.Softcap = 1e-3 }),
			},
			edit: func(l *backend.Launch) {
				for i := range l.Q {
					l.Q[i] *= 1e6
				}
			},
		},
		{name: "24 softcap before the mask", problems: []problem{with(one(heads(1, 1, 64), kv.F16, 16, 1, 4), func(p *problem) {
			p.opt.Softcap = 1
			p.opt.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 4, Visible: []uint8{1, 1, 1, 0}}
		})}, edit: func(l *backend.Launch) { clear(l.Q) }},
		{name: "25 scales on every path", problems: []problem{
			with(one(heads(8, 2, 128), kv.F8E4M3, 16, 1, 200), scaled(kv.TensorScale, kv.TensorScale)),
			with(one(heads(8, 2, 128), kv.F8E4M3, 16, 5, 200), scaled(kv.TensorScale, kv.HeadScale)),
			with(one(heads(8, 2, 33), kv.F8E4M3, 16, 5, 200), scaled(kv.HeadScale, kv.TensorScale)),
			with(one(heads(8, 2, 128), kv.I8, 5, 5, 200), scaled(kv.ChannelScale, kv.TokenScale)),
		}},
		{
			name: "26 weights beyond an 8-bit type", problems: []problem{with(one(heads(2, 1, 128), kv.F8E4M3, 16, 1, 256), scaled(kv.TokenScale, kv.TokenScale))},
			edit: func(l *backend.Launch) { // the later keys' scores are 7 and more above the first's
				for i := range l.Q {
					l.Q[i] *= 8
				}
			},
		},
		{
			name: "27 scales that overflow an f16 query", problems: []problem{with(one(heads(2, 1, 64), kv.I8, 16, 2, 50), scaled(kv.ChannelScale, kv.TensorScale))},
			edit: func(l *backend.Launch) {
				for i := range l.Q {
					l.Q[i] = 60000
				}
				for i := range l.KV.K.Scales.Values {
					l.KV.K.Scales.Values[i] = 4 * float32(i%2)
				}
				for i := range l.KV.K.Data {
					l.KV.K.Data[i] = 0
				}
			},
		},
		{
			name: "28 large values, long sums", problems: []problem{one(heads(2, 1, 64), kv.F16, 16, 1, 1000), one(heads(2, 1, 64), kv.F16, 16, 0, 65536)}, value: 400,
			edit: func(l *backend.Launch) {
				clear(l.Q)
				for i := 0; i < len(l.KV.V.Data)/2; i++ {
					store(&l.KV.V, i, 100)
				}
			},
		},
	}
}

func scaled(k, v kv.ScaleKind) func(*problem) {
	return func(p *problem) { p.kinds = [2]kv.ScaleKind{k, v} }
}

// TestTraps runs them by name.
func TestTraps(t *testing.T) {
	b := open(t)
	for _, x := range traps() {
		t.Run(x.name, func(t *testing.T) {
			for i, p := range x.problems {
				rng := rand.New(rand.NewPCG(uint64(i), 11))
				l := p.launch(t, rng, b.Info().Width)
				if x.edit != nil {
					x.edit(l)
				}
				if err := errors.Join(l.Validate(), b.Decode(context.Background(), l)); err != nil {
					t.Fatalf("%v: %v", p, err)
				}
				compare(t, l, tolerances[p.dtype]*max(1, x.value/4))
			}
		})
	}
}

// TestTrapRepeats: 11 and 12, the same plan a thousand times, bit for bit.
func TestTrapRepeats(t *testing.T) {
	b := open(t)
	for _, p := range []problem{
		{shape: heads(8, 2, 128), dtype: kv.F8E4M3, kinds: [2]kv.ScaleKind{kv.TokenScale, kv.TokenScale}, lens: []int{8192, 8000, 1, 4000}, queries: []int{1, 1, 1, 1}, pageSize: 16, splits: 8, opt: attn.Options{Window: 128}},
		{shape: heads(6, 1, 128), dtype: kv.BF16, lens: []int{799, 799, 799, 799, 799}, queries: []int{1, 1, 1, 1, 1}, pageSize: 16, splits: 3},
		{shape: heads(32, 8, 128), dtype: kv.BF16, lens: []int{4096}, queries: []int{1}, pageSize: 16, splits: 40},
	} {
		t.Run(p.String(), func(t *testing.T) {
			l := p.launch(t, rand.New(rand.NewPCG(5, 12)), b.Info().Width)
			k, v := plane(l.KV.K), plane(l.KV.V)
			var out, lse []float32
			if err := b.Do(func() error {
				s, err := b.newStep(StepConfig{Shape: l.Shape, Options: l.Options, Plan: l.Plan, Seqs: l.KV.Seqs, PageSize: l.KV.PageSize, K: k, V: v})
				if err != nil {
					return err
				}
				defer s.free()
				bufs := Buffers{K: k, V: v}
				if err := errors.Join(s.putPlane(&bufs.K, &l.KV.K), s.putPlane(&bufs.V, &l.KV.V), put(s, &bufs.Q, l.Q), s.results(&bufs, l)); err != nil {
					return err
				}
				for i := range 1000 {
					if err := errors.Join(b.stream.Fill32(bufs.Out, 0xffffffff, len(l.Out)), s.Launch(b.stream, bufs), download(b.stream, &bufs, l)); err != nil {
						return err
					}
					if i == 0 {
						out, lse = slices.Clone(l.Out), slices.Clone(l.LSE)
						compare(t, l, tolerances[p.dtype])
					} else if !slices.Equal(out, l.Out) || !slices.Equal(lse, l.LSE) {
						return fmt.Errorf("run %d has other bits", i)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTrapOffsets: 17 and 18, pages beyond 2³¹ and 2³² elements of one allocation
// give the bits of near ones.
func TestTrapOffsets(t *testing.T) {
	b := open(t)
	const stride, pages = 276480, int64(20001) // elements a page
	shape := heads(4, 1, 128)
	for _, dtype := range []kv.DType{kv.BF16, kv.F8E4M3} {
		bytes := int(pages * stride * int64(dtype.Bits()) / 8)
		var at nv.Pointer
		if err := b.Do(func() (err error) { at, err = b.ctx.Alloc(bytes); return err }); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(8, 8))
		var results [2][]float32
		data := make([]uint16, 32*128)
		for i := range data {
			data[i] = uint16(rng.Uint32())&0x8377 | 0x3c00
		}
		q := make([]float32, 512)
		for i := range q {
			q[i] = float32(rng.NormFloat64())
		}
		for i, pages := range [2][]kv.PageID{{0, 1}, {7768, 20000}} {
			p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 32, NumQueries: 1}}, NumKVHeads: 1, GroupSize: 4, Width: 8, NumSplits: 2})
			if err != nil {
				t.Fatal(err)
			}
			plane := kv.Plane{Type: dtype, Dim: 128, PageStride: stride, HeadStride: 16 * 128, SlotStride: 128, Device: kv.Memory{Address: uint64(at), Bytes: bytes}}
			v := plane
			v.Device.Address += 16 * 128 * 2
			v.Device.Bytes -= 16 * 128 * 2
			l := &backend.Launch{Shape: shape, Options: &attn.Options{}, Plan: p, Q: q, Out: nan(512), LSE: nan(4)}
			l.KV = kv.View{K: plane, V: v, NumKVHeads: 1, PageSize: 16, NumPages: 20001, Seqs: []kv.Table{{Len: 32, Pages: pages}}}
			page := nv.Pointer(stride * dtype.Bits() / 8)
			if err := b.Do(func() error {
				var errs []error
				for j, id := range pages {
					errs = append(errs, nv.Upload(b.stream, at+nv.Pointer(id)*page, data[j*2048:][:2048]), nv.Upload(b.stream, at+nv.Pointer(id)*page+16*128*2, data[2048-j*2048:][:2048]))
				}
				return errors.Join(errs...)
			}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Validate(), b.Decode(context.Background(), l)); err != nil {
				t.Fatal(err)
			}
			results[i] = append(l.Out, l.LSE...)
		}
		if !slices.Equal(results[0], results[1]) || math.IsNaN(float64(results[0][0])) {
			t.Errorf("%v: far pages give other bits", dtype)
		}
		if err := b.Do(func() error { return b.ctx.Free(at) }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTrapBorders: 15, 16, 21 and 22, what a view cannot hold is refused before any
// launch.
func TestTrapBorders(t *testing.T) {
	for length, want := range map[int]error{513: kv.ErrCapacity, 512: nil} {
		p := kv.Plane{Type: kv.F16, Dim: 64, PageStride: 2 * 256 * 64, HeadStride: 256 * 64, SlotStride: 64, Data: make([]byte, 2*2*256*64*2)}
		v := kv.View{K: p, V: p, NumKVHeads: 2, PageSize: 256, NumPages: 2, Seqs: []kv.Table{{Len: length, Pages: []kv.PageID{0, 1}}}}
		if err := v.Validate(); !errors.Is(err, want) {
			t.Errorf("%d keys on two pages of 256: %v, want %v", length, err, want)
		}
	}
}
