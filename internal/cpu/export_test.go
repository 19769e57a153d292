package cpu

import (
	"slices"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
)

// NewEager returns a backend that wakes helpers however small a launch is.
func NewEager(opt Options) *Backend {
	b := New(opt)
	b.helperWork = 1
	return b
}

// Started is how many helpers the backend has ever started.
func (b *Backend) Started() int { return b.pool.started }

// Lifted reports that the last chunk of some row of the last launch was summed in the unit that
// lifts tiny values.
func (b *Backend) Lifted() bool {
	for _, j := range b.pool.idle {
		for _, w := range j.seats {
			for h := range w.room {
				if slices.Contains(w.room[h].unit, lift) {
					return true
				}
			}
		}
	}
	return false
}

// SideBySide is the most KV heads that go side by side in a launch on so many workers.
func SideBySide(l *backend.Launch, workers int) int {
	j := &job{launch: l, k: planeOf(&l.KV.K), v: planeOf(&l.KV.V)}
	j.handOut(workers)
	most := 0
	for i := range j.tasks {
		most = max(most, j.tasks[i].heads)
	}
	return most
}

// OnPairs has f called with each call of a kernel for queries in pairs and keys of type e: with the heads and keys
// that it takes.
func (b *Backend) OnPairs(e simd.Elem, f func(heads, keys int)) {
	k := &b.lib.pairs[e]
	one, several := k.pairScores, k.headsPairScores
	if one == nil {
		return
	}
	k.pairScores = func(s []float32, stride int, q []float32, rows, dim int, keys simd.Tile, ahead simd.Ahead) {
		f(1, len(keys.Off))
		one(s, stride, q, rows, dim, keys, ahead)
	}
	k.headsPairScores = func(s []float32, stride int, q []float32, rows, dim int, keys simd.Tile, heads *simd.Heads, ahead simd.Ahead) {
		f(heads.N, len(keys.Off))
		several(s, stride, q, rows, dim, keys, heads, ahead)
	}
}
