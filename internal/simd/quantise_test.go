package simd

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var quantisedTypes = []Elem{E4M3, E5M2, I8, I4}

// TestQuantiseEqualsPlain: every bit, of every length, of ties and their neighbours,
// subnormals, numbers beyond a type's largest and what is not finite, with any scale.
func TestQuantiseEqualsPlain(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	scales := []float32{1, -1, 0.37, -3e-5, 1e30, 1e-40, -1e-45, 0, inf, nan}
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(23, 24))
		for _, e := range quantisedTypes {
			ties := tiesOf(e)
			for _, scale := range scales {
				for n := range 133 {
					x := make([]float32, n)
					for i := range x {
						switch rng.IntN(4) {
						case 0:
							x[i] = math.Float32frombits(rng.Uint32() &^ (1 << 23)) // any, but none that is not finite
						case 1:
							x[i] = scale * float32(rng.NormFloat64()*math.Ldexp(1, rng.IntN(24)-12))
						default:
							x[i] = scale * ties[rng.IntN(len(ties))]
						}
						if !Finite(x[i]) {
							x[i] = 1
						}
					}
					if n%5 == 4 {
						x[rng.IntN(n)] = []float32{inf, -inf, nan}[rng.IntN(3)]
					}
					want, got := make([]byte, e.RowBytes(n)+1), make([]byte, e.RowBytes(n)+1)
					want[len(want)-1], got[len(got)-1] = 0xa5, 0xa5
					quantiseGeneric(want, e, x, func(int) float32 { return scale })
					Quantise(got, e, x, scale)
					if !bytes.Equal(got, want) {
						t.Fatalf("%v, %d elements of scale %v:\n%v\nare % x,\nwant % x", e, n, scale, x, got, want)
					}
				}
			}
		}
	})
}

// tiesOf are the numbers between neighbouring codes of a type, their neighbours, and the
// codes themselves.
func tiesOf(e Elem) []float32 {
	codes := make([]float32, 0, 256)
	for c := range 1 << e.Bits() {
		x := make([]float32, 1)
		if Widen(x, e, []byte{byte(c)}); Finite(x[0]) {
			codes = append(codes, x[0])
		}
	}
	slices.Sort(codes)
	ties := slices.Clone(codes)
	for i, x := range codes[1:] {
		tie := codes[i]/2 + x/2
		ties = append(ties, tie, math.Nextafter32(tie, -1e9), math.Nextafter32(tie, 1e9))
	}
	return append(ties, 464, -464, 1e9, -1e9, 1e-9, -1e-9, float32(math.Copysign(0, -1)))
}

// TestLargestEqualsPlain: wherever in a row the largest is, and where it is not finite.
func TestLargestEqualsPlain(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(25, 26))
		for n := range 70 {
			x := randomFloats(rng, n)
			for i := range x {
				for _, top := range []float32{100, -100, 1e-40, float32(math.Inf(-1)), float32(math.NaN())} {
					row := slices.Clone(x)
					row[i] = top
					if got, want := math.Float32bits(Largest(row)), largestGeneric(row); got != want {
						t.Fatalf("%v of %d elements, the largest %v: %#x, want %#x", i, n, top, got, want)
					}
				}
			}
		}
		if got := Largest(nil); got != 0 {
			t.Errorf("the largest of none is %v, want 0", got)
		}
	})
}

func BenchmarkQuantise(b *testing.B) {
	x := randomFloats(rand.New(rand.NewPCG(27, 28)), 128)
	for _, level := range Levels() {
		for _, e := range quantisedTypes {
			b.Run(fmt.Sprintf("impl=%s/dtype=%v", level, e), func(b *testing.B) {
				restore, err := SetLevel(level)
				if err != nil {
					b.Fatal(err)
				}
				defer restore()
				dst := make([]byte, 128)
				b.SetBytes(4 * 128)
				for b.Loop() {
					Quantise(dst, e, x, Largest(x)/7)
				}
			})
		}
	}
}
