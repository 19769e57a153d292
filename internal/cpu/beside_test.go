package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestPagesAreFetchedOnceAndAhead: heads side by side fetch each line of the keys once, no
// later than it is read but for the first of a step, whatever size and order pages have; and
// part keys where pages do.
func TestPagesAreFetchedOnceAndAhead(t *testing.T) {
	if simd.HeadsScores(simd.F16) == nil {
		t.Skipf("kernels of level %s take heads one by one", simd.Level())
	}
	for _, size := range []int{1, 5, 16, 24, 64} {
		for _, ordered := range []bool{false, true} {
			for _, group := range []int{1, 4} {
				for _, layout := range []kv.Layout{kv.HND, kv.NHD} {
					t.Run(fmt.Sprintf("size=%d/ordered=%t/group=%d/layout=%d", size, ordered, group, layout), func(t *testing.T) {
						checkAhead(t, pagedLaunch(t, size, ordered, group, layout))
					})
				}
			}
		}
	}
}

// checkAhead decodes a launch on one thread and looks at what is fetched.
func checkAhead(t *testing.T, l *backend.Launch) {
	t.Helper()
	b := New(Options{Threads: 1})
	defer b.Close()
	const line = 64
	p := planeOf(&l.KV.K)
	fetched, missing, keys := map[int]int{}, 0, 0
	scores := b.lib.headsScores[simd.F16]
	b.lib.headsScores[simd.F16] = func(s []float32, stride int, q []float32, rows, dim int, k simd.Tile, heads *simd.Heads, ahead simd.Ahead) {
		if (keys+heads.First)%heads.Run != 0 {
			t.Errorf("from key %d on a first stretch of %d keys ends within a stretch of %d", keys, heads.First, heads.Run)
		}
		keys += len(k.Off)
		for _, off := range ahead.Off {
			for at := off; at < off+ahead.Bytes; at += line {
				fetched[at/line]++
			}
		}
		for _, off := range k.Off {
			for h := range heads.N {
				for at := off + h*heads.Pitch; at < off+h*heads.Pitch+p.row; at += line {
					if fetched[at/line] == 0 {
						missing += line
					}
				}
			}
		}
		scores(s, stride, q, rows, dim, k, heads, ahead)
	}
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if keys == 0 {
		t.Fatal("no call took heads side by side")
	}
	if missing > simd.LeadFar+pieceBytes {
		t.Errorf("%d bytes were read before they were fetched, want at most the lead", missing)
	}
	total, twice := len(p.data)/line, 0
	for at, n := range fetched {
		if n > 1 && at < total {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d of %d lines were fetched twice", twice, total)
	}
}

// pagedLaunch is a step of one sequence with eight KV heads of f16.
func pagedLaunch(t *testing.T, size int, ordered bool, group int, layout kv.Layout) *backend.Launch {
	t.Helper()
	const heads, dim, pages = 8, 64, 240
	n := pages * size
	p, err := plan.New(plan.Config{NumKVHeads: heads, GroupSize: group, Width: 1, HeadTile: sideBySide, NumSplits: 1, Seqs: []plan.Seq{{Len: n, NumQueries: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	plane := kv.Plane{
		Type: kv.F16, Dim: dim, PageStride: heads * size * dim, HeadStride: size * dim, SlotStride: dim,
		Data: make([]byte, 2*n*heads*dim),
	}
	if layout == kv.NHD {
		plane.HeadStride, plane.SlotStride = dim, heads*dim
	}
	table := kv.Table{Len: n}
	for _, page := range rand.New(rand.NewPCG(7, 8)).Perm(pages) {
		table.Pages = append(table.Pages, kv.PageID(page))
	}
	for i := range table.Pages {
		if ordered {
			table.Pages[i] = kv.PageID(i)
		}
	}
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: heads * group, NumKVHeads: heads, KeyDim: dim, ValueDim: dim}, Options: &attn.Options{}, Plan: p,
		KV: kv.View{K: plane, V: plane, NumKVHeads: heads, PageSize: size, NumPages: pages, Seqs: []kv.Table{table}},
		Q:  make([]float32, heads*group*dim), Out: make([]float32, heads*group*dim),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}
