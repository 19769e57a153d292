//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kvBytes is the size of keys and values together in BenchmarkLoop: far beyond
// the caches.
const kvBytes = 512 << 20

// BenchmarkLoop runs the whole tile loop of one KV head over keys and values in
// memory, every goroutine over a part of its own, and a bare read of the same
// bytes by the same goroutines after each run. It reports the median rates and
// the share of the one in the other.
func BenchmarkLoop(b *testing.B) {
	k, v := benchMemory(b, kvBytes/2), benchMemory(b, kvBytes/2)
	for _, level := range Levels()[1:] {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{128, 64} {
				for _, group := range []int{1, 4, 8} {
					for _, threads := range []int{1, 2} {
						name := fmt.Sprintf("impl=%s/dtype=%v/dim=%d/group=%d/threads=%d", level, e, dim, group, threads)
						b.Run(name, func(b *testing.B) {
							restore, err := SetLevel(level)
							if err != nil {
								b.Fatal(err)
							}
							defer restore()
							benchLoop(b, e, dim, group, threads, k, v)
						})
					}
				}
			}
		}
	}
}

func benchLoop(b *testing.B, e Elem, dim, group, threads int, k, v []byte) {
	share := kvBytes / 2 / threads
	run := func(f func(k, v []byte)) float64 {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range threads {
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				f(k[i*share:][:share], v[i*share:][:share])
			})
		}
		wg.Wait()
		return kvBytes / time.Since(start).Seconds() / 1e9
	}
	b.SetBytes(kvBytes)
	var ours, ceiling []float64
	for b.Loop() {
		ours = append(ours, run(func(k, v []byte) { tileLoop(e, dim, group, k, v) }))
		b.StopTimer()
		ceiling = append(ceiling, run(func(k, v []byte) { ReadSum(k); ReadSum(v) }))
		b.StartTimer()
	}
	slices.Sort(ours)
	slices.Sort(ceiling)
	top := ceiling[len(ceiling)/2]
	b.ReportMetric(ours[len(ours)/2], "GB/s")
	b.ReportMetric(top, "ceiling-GB/s")
	b.ReportMetric(100*ours[len(ours)/2]/top, "share-%")
}

// tileLoop is what a worker does for one item, sweep by sweep: contiguous rows, every
// key seen.
func tileLoop(e Elem, dim, group int, k, v []byte) {
	size, sweep := e.RowBytes(dim), SweepKeys(group)
	keys := len(k) / size
	q, o, s := make([]float32, group*dim), make([]float32, group*dim), make([]float32, group*sweep)
	m, l, alpha := make([]float32, group), make([]float32, group), make([]float32, group)
	for i := range q {
		q[i] = 1 / float32(dim)
	}
	for r := range m {
		m[r] = float32(math.Inf(-1))
	}
	scores, accumulate := tileSteps(e, q, group, dim, sweep)
	list, kLead, vLead := make([]int, sweep+2*TileKeys), LeadScores(e, dim, group), LeadSums(e, dim, group)
	for j := 0; j < keys; j += sweep {
		listed := min(len(list), keys-j)
		for i := range listed {
			list[i] = (j + i) * size
		}
		n := min(sweep, listed)
		ahead := func(data []byte, lead int) Ahead {
			if lead == 0 {
				return Ahead{}
			}
			return Ahead{data, list[min(lead, listed):min(lead+n, listed)], size}
		}
		scores(s, Tile{k, list[:n]}, ahead(k, kLead))
		Softmax(s, sweep, group, n, m, l, alpha)
		accumulate(o, s, alpha, Tile{v, list[:n]}, ahead(v, vLead))
	}
}

// tileSteps are the kernels that a worker takes for rows of q, with what they need of it.
func tileSteps(e Elem, q []float32, rows, dim, stride int) (scores func(s []float32, k Tile, ahead Ahead), accumulate func(o, p, alpha []float32, v Tile, ahead Ahead)) {
	if f := IntegerKernels(e); f.Takes(dim) {
		digits := make([]byte, rows*DigitsBytes(dim))
		f.Digits(digits, q, rows, dim)
		reach, most := Reach{math.MaxFloat32, math.MaxFloat32}, slices.Repeat([]float32{math.MaxFloat32}, rows) // as few digits as there are kernels for
		scores = func(s []float32, k Tile, ahead Ahead) {
			f.Scores(s, stride, q, digits, rows, dim, k, nil, &reach, ahead)
		}
		return scores, func(o, p, alpha []float32, v Tile, ahead Ahead) {
			f.Accumulate(o, rows, dim, p, stride, alpha, v, nil, most, 0, ahead)
		}
	}
	floats, sums := Scores(e), Accumulate(e)
	if f := AccumulateRounded(e); f != nil && rows >= RoundedRows(e) {
		l := make([]float32, rows)
		sums = func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead) {
			RoundWeights(p, stride, rows, len(v.Off), l, alpha)
			f(o, rows, dim, p, stride, alpha, v, ahead)
		}
	}
	scores = func(s []float32, k Tile, ahead Ahead) { floats(s, stride, q, rows, dim, k, ahead) }
	return scores, func(o, p, alpha []float32, v Tile, ahead Ahead) {
		sums(o, rows, dim, p, stride, alpha, v, ahead)
	}
}

// benchMemory is n bytes in huge pages where there are any, of numbers that are
// neither NaN nor subnormal in any type.
func benchMemory(b *testing.B, n int) []byte {
	data, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = syscall.Munmap(data) })
	adviseHuge(data)
	rng := rand.New(rand.NewPCG(13, 14))
	for i := range data[:4096] {
		data[i] = byte(0x30+rng.IntN(12)) | byte(rng.IntN(2))<<7
	}
	for i := 4096; i < n; i *= 2 {
		copy(data[i:], data[:i])
	}
	return data
}

// BenchmarkTile is the three steps on one tile in the cache: what computing costs.
func BenchmarkTile(b *testing.B) {
	const dim = 128
	for _, level := range Levels()[1:] {
		for e := F32; e < NumElems; e++ {
			for _, group := range []int{1, 2, 4, 8} {
				restore, err := SetLevel(level)
				if err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(15, 16))
				t := adjacentRows(rng, e, TileKeys, dim)
				q, o, s := randomFloats(rng, group*dim), make([]float32, group*dim), make([]float32, group*TileKeys)
				m, l, alpha := make([]float32, group), make([]float32, group), make([]float32, group)
				scores, accumulate := tileSteps(e, q, group, dim, TileKeys)
				for _, step := range []struct {
					name string
					run  func()
				}{
					{"scores", func() { scores(s, t, Ahead{}) }},
					{"softmax", func() { Softmax(s, TileKeys, group, TileKeys, m, l, alpha) }},
					{"accumulate", func() { accumulate(o, s, alpha, t, Ahead{}) }},
				} {
					b.Run(fmt.Sprintf("impl=%s/dtype=%v/group=%d/step=%s", level, e, group, step.name), func(b *testing.B) {
						for b.Loop() {
							step.run()
						}
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/TileKeys, "ns/key")
					})
				}
				restore()
			}
		}
	}
}

// adjacentRows is n rows of type e, one after the other.
func adjacentRows(rng *rand.Rand, e Elem, n, dim int) Tile {
	size := e.RowBytes(dim)
	t := Tile{make([]byte, n*size), make([]int, n)}
	for i := range t.Off {
		t.Off[i] = i * size
		Narrow(t.Data[i*size:], e, randomFloats(rng, dim))
	}
	return t
}
