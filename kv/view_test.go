package kv_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

const unusedPage = kv.PageID(2147480000)

func bitsToFloat(bits uint32) float32 { return math.Float32frombits(bits) }

func bytesOf(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// f32View views n float32 elements as pages of 2 slots × 1 head × dim 2.
func f32View(n int, seqs ...kv.Table) kv.View {
	plane := kv.Plane{Dim: 2, Data: make([]byte, 4*n), PageStride: 4, HeadStride: 4, SlotStride: 2}
	return kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: 2, NumPages: n / 4, Seqs: seqs}
}

func TestViewValidate(t *testing.T) {
	two := []kv.PageID{0, 1}
	for name, tc := range map[string]struct {
		view kv.View
		kind error
		says string
	}{
		"good":                        {f32View(8, kv.Table{Pages: two, Len: 4}), nil, ""},
		"no sequence":                 {f32View(0), nil, ""},
		"unused entries are not read": {f32View(8, kv.Table{Pages: []kv.PageID{1, unusedPage, -5}, Len: 2}), nil, ""},
		"length beyond the table":     {f32View(8, kv.Table{}, kv.Table{Pages: two, Len: 5}), kv.ErrCapacity, "sequence 1 has 5 keys, but its 2 pages of 2 slots hold 4"},
		"negative length":             {f32View(8, kv.Table{Pages: two, Len: -1}), attn.ErrShape, "sequence 0 has -1 keys"},
		"page beyond the cache":       {f32View(8, kv.Table{Pages: []kv.PageID{0, 2}, Len: 3}), kv.ErrPage, "sequence 0 has page 2 as entry 1, want 0 to 1"},
		"negative page":               {f32View(8, kv.Table{Pages: []kv.PageID{-1}, Len: 1}), kv.ErrPage, "page -1"},
		"data too short": {func() kv.View {
			v := f32View(8, kv.Table{Pages: two, Len: 4})
			v.V.Data = v.V.Data[:31]
			return v
		}(), attn.ErrShape, "V holds 7 elements, too few for page 1"},
		"a short last page": {func() kv.View {
			v := f32View(8, kv.Table{Pages: two[1:], Len: 1})
			v.K.Data = v.K.Data[:24]
			return v
		}(), nil, ""},
		"stride below 0": {func() kv.View {
			v := f32View(8, kv.Table{Pages: two, Len: 4})
			v.K.SlotStride = -2
			return v
		}(), attn.ErrShape, "K has strides 4, 4, -2"},
		"stride that overflows": {func() kv.View {
			v := f32View(8, kv.Table{Pages: two, Len: 4})
			v.K.PageStride = math.MaxInt
			return v
		}(), attn.ErrShape, "K holds 8 elements"},
		"no heads": {kv.View{PageSize: 1}, attn.ErrShape, "0 KV heads"},
	} {
		err := tc.view.Validate()
		if !errors.Is(err, tc.kind) || tc.kind != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, tc.kind, tc.says)
		}
	}
}

// TestLengthAgainstTable is the fault of a length (or a length with its appended
// tokens) beyond columns × page size, which reads and writes outside.
func TestLengthAgainstTable(t *testing.T) {
	plane := kv.Plane{Dim: 1, Data: make([]byte, 4*512), PageStride: 256, HeadStride: 256, SlotStride: 1}
	view := func(n int) *kv.View {
		return &kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: 256, NumPages: 2, Seqs: []kv.Table{{Pages: []kv.PageID{1, 0}, Len: n}}}
	}
	if err := view(512).Validate(); err != nil {
		t.Errorf("512 keys in 2 pages of 256: %v", err)
	}
	if err := view(513).Validate(); !errors.Is(err, kv.ErrCapacity) {
		t.Errorf("513 keys in 2 pages of 256: %v, want ErrCapacity", err)
	}
	cfg := kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 256, NumPages: 2}
	seq := open(t, cfg).NewSequence()
	if err := seq.Append(make([]float32, 512), make([]float32, 512)); err != nil {
		t.Fatal(err)
	}
	if err := seq.Append(make([]float32, 1), make([]float32, 1)); !errors.Is(err, kv.ErrNoPages) {
		t.Errorf("one more: %v, want ErrNoPages", err)
	}
}

func TestContiguous(t *testing.T) {
	// Batch 2, 2 heads, 3 keys, key dim 1, value dim 2.
	k := kv.Tensor{Data: bytesOf([]float32{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112})}
	v := kv.Tensor{Data: make([]byte, 4*24)}
	view, err := kv.Contiguous(k, v, 2, 2, 3, 1, 2, []int{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := view.Validate(); err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(view.K.Data) != unsafe.SliceData(k.Data) {
		t.Error("the tensor was copied")
	}
	var key [1]float32
	second := view.Sequence(1)
	if second.Key(key[:], 1, 1); second.Len() != 2 || key[0] != 111 {
		t.Errorf("sequence 1 has %d keys, head 1 key 1 is %v, want 2 and 111", second.Len(), key[0])
	}
}

func TestContiguousRefuses(t *testing.T) {
	ten := kv.Tensor{Data: make([]byte, 40)}
	for name, f := range map[string]func() (kv.View, error){
		"v has 40 bytes, want [2, 1, 5, 2] of f32":                func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, 1, 5, 1, 2, nil) },
		"sequence 1 has length 6, want 0 to 5":                    func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, 1, 5, 1, 1, []int{5, 6}) },
		"sequence 0 has length -1, want 0 to 5":                   func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, 1, 5, 1, 1, []int{-1, 6}) },
		"1 lengths, want 2":                                       func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, 1, 5, 1, 1, []int{5}) },
		fmt.Sprintf("k has 40 bytes, want [2, %d", math.MaxInt/8): func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, math.MaxInt/8, 5, 1, 1, nil) },
		fmt.Sprintf("k and v of batch %d", math.MaxInt):           func() (kv.View, error) { return kv.Contiguous(ten, ten, math.MaxInt, 8, 0, 1, 1, nil) },
		"k has 0 bytes, want [4, ": func() (kv.View, error) {
			return kv.Contiguous(kv.Tensor{}, kv.Tensor{}, 4, math.MaxInt/2+1, 1, 1, 1, nil)
		},
		"a batch of 1073741824 sequences without a key": func() (kv.View, error) { return kv.Contiguous(kv.Tensor{}, kv.Tensor{}, 1<<30, 1, 0, 1, 1, nil) },
		"0 KV heads": func() (kv.View, error) { return kv.Contiguous(ten, ten, 2, 0, 5, 1, 1, nil) },
	} {
		if _, err := f(); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want ErrShape with %q", err, name)
		}
	}
}

// TestRowsThatAreNotThere read as NaN, whatever is asked for.
func TestRowsThatAreNotThere(t *testing.T) {
	view := f32View(8, kv.Table{Pages: []kv.PageID{1, unusedPage}, Len: 4})
	tokens := view.K
	tokens.Type, tokens.Scales = kv.I8, kv.Scales{Kind: kv.TokenScale, Values: []float32{1}, SlotStride: 1}
	unknown := view.K
	unknown.Type = 200
	seq := view.Sequence(0)
	for name, read := range map[string]func(dst []float32){
		"a page that is not there": func(dst []float32) { seq.Key(dst, 0, 2) },
		"a key beyond the table":   func(dst []float32) { seq.Value(dst, 0, 4) },
		"a key before the first":   func(dst []float32) { seq.Key(dst, 0, -1) },
		"a page before the first":  func(dst []float32) { seq.Key(dst, 0, -5) },
		"a huge head":              func(dst []float32) { seq.Key(dst, math.MaxInt, 0) },
		"another sequence":         func(dst []float32) { view.Sequence(1).Key(dst, 0, 0) },
		"a type that is not known": func(dst []float32) { unknown.Row(dst, 0, 0, 0) },
		"a row without a scale":    func(dst []float32) { tokens.Row(dst, 0, 0, 1) },
	} {
		dst := []float32{1, 2}
		if read(dst); dst[0] == dst[0] || dst[1] == dst[1] {
			t.Errorf("%s: %v, want NaN", name, dst)
		}
	}
	dst := []float32{1}
	if view.K.Row(dst, 1, 0, 0); dst[0] == dst[0] {
		t.Errorf("a row of 2 in 1 element: %v, want NaN", dst)
	}
	if n := view.Sequence(-1).Len(); n != 0 {
		t.Errorf("sequence -1 has %d keys", n)
	}
	if x := (&kv.Scales{Kind: kv.HeadScale}).Shared(0, 0, 1); x == x {
		t.Errorf("the scale of a head that has none is %v, want NaN", x)
	}
}

// TestViewIsNoHandle: what a caller appends to a view's page table, or writes into
// the configuration it was told, does not reach the cache.
func TestViewIsNoHandle(t *testing.T) {
	scales := kv.Scales{Kind: kv.HeadScale, Values: []float32{2}}
	cache := open(t, kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 1, NumPages: 8, KeyType: kv.I8, KeyScales: scales})
	seq := cache.NewSequence()
	five := make([]float32, 5)
	if err := errors.Join(seq.Append(five, five), seq.Truncate(2)); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if n := cap(view.Seqs[0].Pages); n != 2 {
		t.Errorf("the table of 2 pages has room for %d", n)
	}
	cache.Config().KeyScales.Values[0] = 5
	if x := view.K.Scales.Values[0]; x != 2 {
		t.Errorf("the cache's scale is %v after its configuration was written to, want 2", x)
	}
}

// TestInterleavedPlanes views K and V of one allocation [pages, 2, slots, heads,
// dim], whose page stride is twice the packed one; then V of another one, with
// strides that are all different.
func TestInterleavedPlanes(t *testing.T) {
	const pages, size, heads, dim = 4, 16, 2, 64
	const half = size * heads * dim
	data := counted(pages * 2 * half)
	k := kv.Plane{Dim: dim, Data: data, PageStride: 2 * half, HeadStride: dim, SlotStride: heads * dim}
	v := k
	v.Data = data[4*half:]
	apart := kv.Plane{Dim: dim, Data: counted(pages * 3 * half), PageStride: 3 * half, HeadStride: size * dim, SlotStride: dim}
	for name, v := range map[string]kv.Plane{"one allocation": v, "two allocations": apart} {
		view := kv.View{K: k, V: v, NumKVHeads: heads, PageSize: size, NumPages: pages, Seqs: []kv.Table{{Pages: []kv.PageID{3, 1}, Len: 20}}}
		if err := view.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows := view.Sequence(0)
		for pos, page := range map[int]int{0: 3, 15: 3, 16: 1, 19: 1} {
			for head := range heads {
				slot := pos % size
				var row [dim]float32
				rows.Key(row[:], head, pos)
				if want := float32(page*2*half + slot*heads*dim + head*dim); row[0] != want {
					t.Errorf("%s: key %d of head %d begins with element %v, want %v", name, pos, head, row[0], want)
				}
				want := float32(page*2*half + half + slot*heads*dim + head*dim)
				if name == "two allocations" {
					want = float32(page*3*half + head*size*dim + slot*dim)
				}
				if rows.Value(row[:], head, pos); row[0] != want {
					t.Errorf("%s: value %d of head %d begins with element %v, want %v", name, pos, head, row[0], want)
				}
			}
		}
	}
	k.PageStride = 3 * half // page 3 would end behind the allocation
	view := kv.View{K: k, V: v, NumKVHeads: heads, PageSize: size, NumPages: pages, Seqs: []kv.Table{{Pages: []kv.PageID{3}, Len: 16}}}
	if err := view.Validate(); !errors.Is(err, attn.ErrShape) {
		t.Errorf("a page behind the end: %v, want ErrShape", err)
	}
}

// counted is n float32 elements that are their own indices.
func counted(n int) []byte {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	return bytesOf(x)
}

// TestLengthsOfSequences is the fault of one length broadcast to the pages of the
// cache instead of the sequences: 10 pages, 2 sequences of 100.
func TestLengthsOfSequences(t *testing.T) {
	plane := kv.Plane{Dim: 1, Data: counted(10 * 64), PageStride: 64, HeadStride: 64, SlotStride: 1}
	view := kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: 64, NumPages: 10, Seqs: []kv.Table{
		{Pages: []kv.PageID{9, 4}, Len: 100}, {Pages: []kv.PageID{0, 7}, Len: 100},
	}}
	if err := view.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{4*64 + 35, 7*64 + 35} {
		var row [1]float32
		rows := view.Sequence(i)
		if rows.Key(row[:], 0, 99); rows.Len() != 100 || row[0] != want {
			t.Errorf("sequence %d has %d keys, the last %v, want 100 and %v", i, rows.Len(), row[0], want)
		}
	}
}

// TestUnusedEntries is the fault of reading through page-table entries that no key
// needs, and of values of other sequences that leak: rows are filled up with an id
// far outside, and all that is not referenced is NaN.
func TestUnusedEntries(t *testing.T) {
	const size, pages = 16, 12
	x := make([]float32, pages*size)
	for i := range x {
		x[i] = nan
	}
	lens := []int{17, 0, 64}
	tables := [][]kv.PageID{{5, 2}, {}, {11, 0, 7, 3}}
	var seqs []kv.Table
	for i, n := range lens {
		for pos := range n {
			x[int(tables[i][pos/size])*size+pos%size] = float32(1000*i + pos)
		}
		row := tables[i]
		for len(row) < 8 {
			row = append(row, unusedPage)
		}
		seqs = append(seqs, kv.Table{Pages: row, Len: n})
	}
	plane := kv.Plane{Dim: 1, Data: bytesOf(x), PageStride: size, HeadStride: size, SlotStride: 1}
	view := kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: size, NumPages: pages, Seqs: seqs}
	if err := view.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, n := range lens {
		rows := view.Sequence(i)
		for pos := range n {
			var row [1]float32
			if rows.Value(row[:], 0, pos); row[0] != float32(1000*i+pos) {
				t.Fatalf("sequence %d value %d is %v", i, pos, row[0])
			}
		}
	}
	view.Seqs[0].Len = 33 // now the third entry counts
	if err := view.Validate(); !errors.Is(err, kv.ErrPage) || !strings.Contains(err.Error(), "page 2147480000 as entry 2, want 0 to 11") {
		t.Errorf("a needed entry outside: %v, want ErrPage that names it", err)
	}
}

// TestBookkeeping: what a full cache keeps beside its pages is below 2% of them.
func TestBookkeeping(t *testing.T) {
	for _, pageSize := range []int{1, 16} {
		cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: pageSize, NumPages: 4096 / pageSize, KeyType: kv.F16, ValueType: kv.F16}
		allocated := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			k, v := tokens(cfg, []float32{1})
			for b.Loop() {
				cache, err := kv.New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				seq := cache.NewSequence()
				for range 4096 {
					if err := seq.Append(k, v); err != nil {
						b.Fatal(err)
					}
				}
				_ = cache.Close()
			}
		}).AllocedBytesPerOp()
		pages := int64(cfg.NumPages * cfg.PageBytes())
		if allocated*50 > pages {
			t.Errorf("page size %d: filling %d bytes of pages allocated %d, more than 2%%", pageSize, pages, allocated)
		}
	}
}
