package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// problem is a random decode step. Unused slots, pages and table entries are
// poison.
type problem struct {
	shape     attn.Shape
	opt       attn.Options
	lens      []int
	queries   []int
	pageSize  int
	layout    kv.Layout
	dtype     kv.DType
	kinds     [2]kv.ScaleKind // of K and V
	splits    int
	invariant bool
}

func (p problem) String() string {
	return fmt.Sprintf("%v/%v%v/page=%d/layout=%d/lens=%v/queries=%v/splits=%d", p.shape, p.dtype, p.kinds, p.pageSize, p.layout, p.lens, p.queries, p.splits)
}

// launch builds the step: pages in random order, poison everywhere else.
func (p problem) launch(t testing.TB, rng *rand.Rand, width int) *backend.Launch {
	t.Helper()
	seqs := make([]plan.Seq, len(p.lens))
	total, pages := 0, 0
	for i, n := range p.lens {
		seqs[i] = plan.Seq{Len: n, NumQueries: p.queries[i]}
		total += p.queries[i]
		pages += (n + p.pageSize - 1) / p.pageSize
	}
	pl, err := plan.New(plan.Config{
		Seqs: seqs, NumKVHeads: p.shape.NumKVHeads, GroupSize: p.shape.GroupSize(),
		Causal: p.opt.Causal, Window: p.opt.Window, Width: width, NumSplits: p.splits, Invariant: p.invariant, QueryTile: maxRows,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &backend.Launch{Shape: p.shape, Options: &p.opt, Plan: pl}
	numPages := pages + 3
	l.KV = kv.View{
		K: p.plane(rng, numPages, p.shape.KeyDim, p.kinds[0]), V: p.plane(rng, numPages, p.shape.ValueDim, p.kinds[1]),
		NumKVHeads: p.shape.NumKVHeads, PageSize: p.pageSize, NumPages: numPages,
	}
	order := rng.Perm(numPages)
	for _, n := range p.lens {
		need := (n + p.pageSize - 1) / p.pageSize
		table := kv.Table{Len: n}
		for range need {
			table.Pages = append(table.Pages, kv.PageID(order[0]))
			order = order[1:]
		}
		for pos := range n {
			for head := range p.shape.NumKVHeads {
				p.fill(&l.KV.K, rng, int(table.Pages[pos/p.pageSize]), head, pos%p.pageSize)
				p.fill(&l.KV.V, rng, int(table.Pages[pos/p.pageSize]), head, pos%p.pageSize)
			}
		}
		table.Pages = append(table.Pages, 2147480000, 2147480000)
		l.KV.Seqs = append(l.KV.Seqs, table)
	}
	l.Q = make([]float32, total*p.shape.NumHeads*p.shape.KeyDim)
	for i := range l.Q {
		l.Q[i] = float32(rng.NormFloat64())
	}
	rows := total * p.shape.NumHeads
	l.Out = nan(rows * p.shape.ValueDim)
	l.LSE = nan(rows)
	return l
}

func nan(n int) []float32 {
	return slices.Repeat([]float32{float32(math.NaN())}, n)
}

// plane is full of NaN, in its codes or in its tokens' scales. All bits set is one
// in each type but the integers.
func (p problem) plane(rng *rand.Rand, pages, dim int, kind kv.ScaleKind) kv.Plane {
	heads := p.shape.NumKVHeads
	row := dim
	if p.dtype == kv.I4 {
		row += dim % 2
	}
	pl := kv.Plane{Type: p.dtype, Dim: dim, PageStride: heads * p.pageSize * row}
	pl.HeadStride, pl.SlotStride = p.pageSize*row, row
	if p.layout == kv.NHD {
		pl.HeadStride, pl.SlotStride = row, heads*row
	}
	pl.Data = make([]byte, pages*pl.PageStride*p.dtype.Bits()/8)
	for i := range pl.Data {
		pl.Data[i] = 0xff
	}
	pl.Scales.Kind = kind
	switch kind {
	case kv.TensorScale:
		pl.Scales.Values = make([]float32, 1)
	case kv.HeadScale:
		pl.Scales.Values = make([]float32, heads)
	case kv.ChannelScale:
		pl.Scales.Values = make([]float32, heads*dim)
	case kv.TokenScale:
		pl.Scales.Values = nan(pages * heads * p.pageSize)
		pl.Scales.PageStride, pl.Scales.HeadStride, pl.Scales.SlotStride = heads*p.pageSize, p.pageSize, 1
		return pl
	}
	for i := range pl.Scales.Values {
		pl.Scales.Values[i] = p.scale(rng)
	}
	return pl
}

// scale takes codes to values near 1 and below, of either sign.
func (p problem) scale(rng *rand.Rand) float32 {
	largest := map[kv.DType]float32{kv.F8E4M3: 448, kv.F8E5M2: 57344, kv.I8: 127, kv.I4: 7}[p.dtype]
	return float32(rng.NormFloat64()) / largest
}

func (p problem) fill(pl *kv.Plane, rng *rand.Rand, page, head, slot int) {
	at := page*pl.PageStride + head*pl.HeadStride + slot*pl.SlotStride
	if pl.Scales.Kind == kv.TokenScale {
		pl.Scales.Values[pl.Scales.Offset(kv.PageID(page), head, slot)] = p.scale(rng)
	}
	for i := range pl.Dim {
		if !pl.Type.Quantised() {
			store(pl, at+i, float32(rng.NormFloat64()))
			continue
		}
		code := byte(rng.Uint32())
		if pl.Type == kv.F8E4M3 && code&0x7f == 0x7f || pl.Type == kv.F8E5M2 && code&0x7f >= 0x7c {
			code &= 0x8f // no NaN, no infinity
		}
		pl.Data[(at+i)*pl.Type.Bits()/8] = code
	}
}

func store(p *kv.Plane, i int, x float32) {
	bits := math.Float32bits(x)
	switch p.Type {
	case kv.F32:
		for b := range 4 {
			p.Data[4*i+b] = byte(bits >> (8 * b))
		}
	case kv.BF16:
		p.Data[2*i], p.Data[2*i+1] = byte(bits>>16), byte(bits>>24)
	case kv.F16:
		h := toHalf(x)
		p.Data[2*i], p.Data[2*i+1] = byte(h), byte(h>>8)
	}
}

// toHalf cuts a float32 of half's normal range, or NaN or infinity, to half.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	exp := int(bits>>23&0xff) - 127 + 15
	switch {
	case exp > 30:
		if x != x {
			return sign | 0x7e00
		}
		return sign | 0x7c00
	case exp < 1:
		return sign
	}
	return sign | uint16(exp)<<10 | uint16(bits>>13&0x3ff)
}

// sinksFor and slopesFor are one value a head.
func perHead(rng *rand.Rand, heads int, scale float64) []float32 {
	x := make([]float32, heads)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * scale)
	}
	return x
}

func randomProblem(rng *rand.Rand) problem {
	pick := func(xs ...int) int { return xs[rng.IntN(len(xs))] }
	heads := pick(1, 1, 2, 3, 8)
	p := problem{
		shape:    attn.Shape{NumKVHeads: heads, NumHeads: heads * pick(1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 20)},
		pageSize: pick(1, 5, 8, 16, 16, 64, 128, 256),
		layout:   kv.Layout(rng.IntN(2)),
		dtype:    []kv.DType{kv.F32, kv.F16, kv.BF16, kv.F8E4M3, kv.F8E4M3, kv.I8, kv.I8, kv.F8E5M2, kv.I4}[rng.IntN(9)],
	}
	if p.dtype.Quantised() {
		p.kinds = [2]kv.ScaleKind{kv.ScaleKind(1 + rng.IntN(4)), kv.ScaleKind(1 + rng.IntN(3))}
	}
	p.shape.KeyDim = pick(32, 33, 40, 64, 64, 72, 80, 96, 111, 112, 128, 128, 128, 128, 160, 192, 256)
	p.shape.ValueDim = p.shape.KeyDim
	if p.shape.KeyDim == 192 {
		p.shape.ValueDim = 128
	}
	for range pick(1, 1, 2, 3, 5) {
		n := pick(0, 1, 2, 3, 19, 54, 97, 113, 128, 199, 257, 339, 512, 799, 1177)
		p.lens = append(p.lens, n)
		p.queries = append(p.queries, pick(1, 1, 1, 1, 2, 3, 4, 7, 16))
	}
	p.splits = pick(0, 0, 1, 2, 3, 7, 16, 33, 1<<20)
	p.opt.Causal = rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		p.opt.Window = pick(1, 3, 13, 64, 127, 533)
	}
	if rng.IntN(4) == 0 {
		p.opt.Softcap = float64(pick(1, 30, 50))
	}
	if rng.IntN(4) == 0 {
		p.opt.Sinks = perHead(rng, p.shape.NumHeads, 3)
	}
	if rng.IntN(4) == 0 {
		p.opt.Slopes = perHead(rng, p.shape.NumHeads, 0.1)
	}
	if rng.IntN(4) == 0 {
		p.addMask(rng)
	}
	return p
}

// addMask hides a third of the keys; all sequences get the same queries.
func (p *problem) addMask(rng *rand.Rand) {
	for i := range p.queries {
		p.queries[i] = p.queries[0]
	}
	m := &attn.Mask{Seqs: len(p.lens), Queries: p.queries[0], Keys: slices.Max(p.lens)}
	if rng.IntN(2) == 0 {
		m.Newest, m.Keys, m.Seqs = true, min(slices.Min(p.lens), 7), 1
	}
	m.Visible = make([]uint8, m.Seqs*m.Queries*m.Keys)
	for i := range m.Visible {
		m.Visible[i] = uint8(min(1, rng.IntN(3)))
	}
	p.opt.Mask = m
}
