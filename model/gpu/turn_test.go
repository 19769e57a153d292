package gpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// turning is what turned: queries, and the cache of a page of 8 slots.
type turning struct {
	q     []float32 // as they come out
	cache []byte    // keys and values
}

// TestTurns: queries and keys turn by the angles of their positions, and keys and values lie in their places,
// whether the product does it or the kernel beside it, in both orders of pairs and all types of caches.
func TestTurns(t *testing.T) {
	d := open(t)
	for _, e := range []elem{f32, f16, bf16} {
		for _, adjacent := range []int32{0, 1} {
			for _, n := range []int{1, 3, 6} {
				t.Run(fmt.Sprintf("elem=%d/adjacent=%d/n=%d", e, adjacent, n), func(t *testing.T) { checkTurns(t, d, e, adjacent, n) })
			}
		}
	}
}

func checkTurns(t *testing.T, d *Device, e elem, adjacent int32, n int) {
	const hidden, heads, kvHeads, dim, slots = 40, 6, 2, 12, 8
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	var matrices [3]network.Matrix
	var values [3][][]float64
	for i, rows := range []int{heads * dim, kvHeads * dim, kvHeads * dim} {
		matrices[i], values[i] = stored(rng, rows, hidden, gguf.F32, false)
	}
	x, turns := normal(rng, n*hidden), make([]float64, dim/2)
	for i := range turns {
		turns[i] = math.Pow(100, -float64(i)) / 3
	}
	positions, places := make([]int32, n), make([]int32, n)
	for i := range n {
		positions[i], places[i] = int32(7+1000*i), int32((5*i+3)%slots)
	}
	cacheBytes := 2 * slots * kvHeads * dim * e.bytes()
	var got [2]turning // by the product, and by the kernel beside it
	err := d.ctx.Do(func() error {
		u := &uploader{d: d, w: &weights{memory: memory{ctx: d.ctx}}}
		defer u.w.free()
		s := &steps{d: d, tokens: n, w: u.w, n: &network.Network{NormEps: 1e-5, Shape: attn.Shape{NumHeads: heads, NumKVHeads: kvHeads, KeyDim: dim, ValueDim: dim}}}
		var w [3]linear
		for i := range w {
			w[i] = linear{matrix: u.matrix(&matrices[i], elemOf(matrices[i].Type))}
		}
		for i := range got {
			cache := put(u, make([]byte, cacheBytes))
			side := storeParams{data: cache, pageStride: int64(cacheBytes), headStride: int64(slots * dim * e.bytes()), slotStride: int64(dim * e.bytes())}
			r := rotationParams{
				turns: put(u, turns), positions: put(u, positions), places: put(u, places), kStore: side, vStore: side,
				kType: e, vType: e, dim: dim, pageSize: slots, adjacent: adjacent, scale: 1.25,
			}
			r.vStore.data += nv.Pointer(cacheBytes / 2)
			b := &s.buffers
			b.q, b.k, b.v = put(u, make([]float32, n*heads*dim)), put(u, make([]float32, n*kvHeads*dim)), put(u, make([]float32, n*kvHeads*dim))
			p := &product{x: put(u, x), n: n, outputs: []output{{&w[0], b.q}, {&w[1], b.k}, {&w[2], b.v}}}
			if i == 0 {
				p.finish, p.rotation = turned, r
			}
			if err := errors.Join(u.err, s.multiply(p)); err != nil {
				return err
			}
			if i == 1 {
				if err := launch(d, turnStore, grid(n, heads+2*kvHeads), warp, 0, turnParams{
					q: b.q, k: b.k, v: b.v, rotation: r, heads: heads, kvHeads: kvHeads, eps: 1e-5,
				}); err != nil {
					return err
				}
			}
			got[i] = turning{q: make([]float32, n*heads*dim), cache: make([]byte, cacheBytes)}
			if err := errors.Join(nv.Download(d.stream, got[i].q, b.q), nv.Download(d.stream, got[i].cache, cache)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for way := range got {
		checkTurned(t, way, got[way], e, adjacent == 1, values, x, turns, positions, places)
	}
}

// checkTurned holds queries and the cache to float64.
func checkTurned(t *testing.T, way int, got turning, e elem, adjacent bool, w [3][][]float64, x []float32, turns []float64, positions, places []int32) {
	t.Helper()
	half, n := len(turns), len(positions)
	dim, hidden, slots := 2*half, len(x)/n, 8
	kvHeads := len(w[1]) / dim
	limit := map[elem]float64{f32: 2e-5, f16: 4e-3, bf16: 3e-2}[e]
	at := func(side, head, place, i int) float64 {
		from := (side*kvHeads*slots+head*slots+place)*dim + i
		switch e {
		case f32:
			return float64(floats(got.cache)[from])
		case bf16:
			return float64(math.Float32frombits(uint32(got.cache[2*from])<<16 | uint32(got.cache[2*from+1])<<24))
		}
		bits := uint16(got.cache[2*from]) | uint16(got.cache[2*from+1])<<8
		return halfOf(bits)
	}
	for token := range n {
		for side := range w {
			for head := range len(w[side]) / dim {
				rows := make([]float64, dim)
				for r := range rows {
					for c, v := range w[side][head*dim+r] {
						rows[r] += v * float64(x[token*hidden+c])
					}
				}
				for i := 0; i < half && side < 2; i++ {
					a, b := i, i+half
					if adjacent {
						a, b = 2*i, 2*i+1
					}
					sine, cosine := math.Sincos(2 * math.Pi * turns[i] * float64(positions[token]))
					rows[a], rows[b] = 1.25*(rows[a]*cosine-rows[b]*sine), 1.25*(rows[b]*cosine+rows[a]*sine)
				}
				for i, want := range rows {
					value, most := 0.0, limit
					if side == 0 {
						value, most = float64(got.q[(token*len(w[0])/dim+head)*dim+i]), 2e-5
					} else {
						value = at(side-1, head, int(places[token]), i)
					}
					if d := math.Abs(value - want); !(d <= most*(1+math.Abs(want))) {
						t.Fatalf("way %d, token %d, tensor %d, head %d, element %d: %v, want %v", way, token, side, head, i, value, want)
					}
				}
			}
		}
	}
}

// halfOf is the value of an f16.
func halfOf(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	if exponent == 0 {
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
