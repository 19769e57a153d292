package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGateEqualsFloat64: every length, h in place of g, of a and of u, large and small arguments, and what is
// not finite.
func TestGateEqualsFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(19, 20))
		special := []float32{0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, 87, -87, 103, -103, 200, -200, 1e30, -1e30}
		for n := range 70 {
			in := [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
			for i := range n {
				for j := range in {
					in[j][i] = float32(rng.NormFloat64() * 3)
				}
				if i%3 == 0 {
					in[1][i] = special[rng.IntN(len(special))]
				}
			}
			want := make([]float64, n)
			for i := range want {
				want[i] = float64(in[0][i]) / (1 + math.Exp(-float64(in[1][i]))) * float64(in[2][i])
			}
			for place := range in {
				args := [3][]float32{append([]float32(nil), in[0]...), append([]float32(nil), in[1]...), append([]float32(nil), in[2]...)}
				h := args[place]
				Gate(h, args[0], args[1], args[2])
				for i, got := range h {
					if !(math.Abs(float64(got)-want[i]) <= 4e-7*math.Abs(want[i])+1e-37) {
						t.Fatalf("%d elements, h in place of %d: %v·σ(%v)·%v is %v, want %v", n, place, in[0][i], in[1][i], in[2][i], got, want[i])
					}
				}
			}
		}
		for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			h, ones := make([]float32, 16), make([]float32, 16)
			for i := range ones {
				ones[i] = 1
			}
			a := append([]float32(nil), ones...)
			a[5] = float32(bad)
			Gate(h, ones, a, ones)
			for j, got := range h {
				want := float32(1 / (1 + math.Exp(-float64(a[j]))))
				if math.Abs(float64(got-want)) > 1e-6 || (got != got) != (j == 5 && i == 0) {
					t.Errorf("σ(%v) is %v, want %v", a[j], got, want)
				}
			}
		}
	})
}
