package simd

import (
	"bytes"
	"math"
	"testing"

	"github.com/x448/float16"
)

// Every code of 16 bits and fewer widens and narrows back to itself (NaNs to a
// quiet NaN of the same sign).
func TestWidenNarrowRoundTrip(t *testing.T) {
	for e := F16; e < NumElems; e++ {
		step := e.RowBytes(2) / 2
		for code := range 1 << e.Bits() {
			src := []byte{byte(code), byte(code >> 8)}
			got := make([]byte, 2)
			x := make([]float32, 1)
			Widen(x, e, src)
			Narrow(got, e, x)
			if x[0] != x[0] {
				y := make([]float32, 1)
				Widen(y, e, got)
				if y[0] == y[0] || math.Signbit(float64(y[0])) != math.Signbit(float64(x[0])) {
					t.Fatalf("%v %#x: NaN came back as %v", e, code, y[0])
				}
				continue
			}
			if got[0] != src[0] || step == 2 && got[1] != src[1] {
				t.Fatalf("%v %#x widened to %v came back as %#x", e, code, x[0], got)
			}
		}
	}
}

func TestWidenF16AgainstLibrary(t *testing.T) {
	for code := range 1 << 16 {
		got := make([]float32, 1)
		Widen(got, F16, []byte{byte(code), byte(code >> 8)})
		want := float16.Frombits(uint16(code)).Float32()
		if math.Float32bits(got[0]) != math.Float32bits(want) && want == want {
			t.Fatalf("%#x widened to %v, want %v", code, got[0], want)
		}
	}
}

// E5M2 is the upper half of binary16; E4M3's values are spelt by the OCP table.
func TestWidenFP8(t *testing.T) {
	x, want := make([]float32, 1), make([]float32, 1)
	for code := range 256 {
		Widen(x, E5M2, []byte{byte(code)})
		Widen(want, F16, []byte{0, byte(code)})
		if math.Float32bits(x[0]) != math.Float32bits(want[0]) {
			t.Fatalf("e5m2 %#x: %v, want %v", code, x[0], want[0])
		}
	}
	for code, want := range map[byte]float32{0x7e: 448, 0x01: 0x1p-9, 0x07: 7 * 0x1p-9, 0x08: 0x1p-6, 0x38: 1, 0xb9: -1.125, 0x80: 0} {
		if Widen(x, E4M3, []byte{code}); x[0] != want {
			t.Errorf("e4m3 %#x: %v, want %v", code, x[0], want)
		}
	}
}

// Halfway between neighbours goes to the even code, a hair off it to the nearer.
func TestNarrowTies(t *testing.T) {
	for e := F16; e <= E5M2; e++ {
		top := map[Elem]int{F16: 0x7bff, BF16: 0x7f7f, E4M3: 0x7e, E5M2: 0x7b}[e]
		x, code := make([]float32, 2), make([]byte, 2)
		for lo := range top {
			hi := lo + 1
			Widen(x[:1], e, []byte{byte(lo), byte(lo >> 8)})
			Widen(x[1:], e, []byte{byte(hi), byte(hi >> 8)})
			mid := float32((float64(x[0]) + float64(x[1])) / 2)
			for i, y := range []float32{mid, math.Nextafter32(mid, 0), math.Nextafter32(mid, x[1])} {
				want := []int{lo + lo&1, lo, hi}[i]
				Narrow(code, e, []float32{y})
				if got := int(code[0]) | int(code[1])<<8; got != want {
					t.Fatalf("%v: %v between %#x and %#x became %#x, want %#x", e, y, lo, hi, got, want)
				}
			}
		}
	}
}

func TestNarrowOverflow(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		e    Elem
		x    float32
		want uint16
	}{
		{F16, 65519.996, 0x7bff},
		{F16, 65520, 0x7c00},
		{F16, inf, 0x7c00},
		{F16, -inf, 0xfc00},
		{F16, 1e-9, 0},
		{BF16, math.MaxFloat32, 0x7f80},
		{BF16, inf, 0x7f80},
		{BF16, -0x1p-149, 0x8000},
		{E4M3, 449, 0x7e},
		{E4M3, 470, 0x7e},
		{E4M3, inf, 0x7e},
		{E4M3, -1e30, 0xfe},
		{E5M2, 61439.996, 0x7b},
		{E5M2, 61440, 0x7c},
		{E5M2, -inf, 0xfc},
		{I8, 127.5, 0x7f},
		{I8, -1e9, 0x80},
		{I8, 0.5, 0},
		{I8, 1.5, 2},
		{I8, -inf, 0x80},
		{I4, 7.6, 7},
		{I4, -9, 8},
		{I4, float32(math.NaN()), 0},
	} {
		got := make([]byte, 2)
		if Narrow(got, c.e, []float32{c.x}); uint16(got[0])|uint16(got[1])<<8 != c.want {
			t.Errorf("%v %v: %#x, want %#x", c.e, c.x, got, c.want)
		}
	}
}

// TestNarrowEqualsPlain: bit for bit, in any number, at every level: numbers halfway between two of a type and
// beside, subnormal, too large, and NaN; and not a byte beside.
func TestNarrowEqualsPlain(t *testing.T) {
	var all []float32
	for code := range uint32(1 << 16) { // each number of 16 bits, and what lies beside and between
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			all = append(all, math.Float32frombits(code<<16|low))
		}
		all = append(all, float16.Frombits(uint16(code)).Float32()*(1+0x1p-11))
	}
	eachLevel(t, func(t *testing.T) {
		for e := range Elem(NumElems) {
			for n, at := 0, 0; at+n < len(all); n, at = (n+1)%67, at+n {
				const guard = 0xa5
				size := e.RowBytes(n)
				got, want := make([]byte, size+1), make([]byte, size)
				got[size] = guard
				Narrow(got[:size], e, all[at:at+n])
				narrowGeneric(want, e, all[at:at+n])
				if !bytes.Equal(got[:size], want) {
					t.Fatalf("%v of %v is %x, want %x", e, all[at:at+n], got[:size], want)
				}
				if got[size] != guard {
					t.Fatalf("%v: dst was written past its end", e)
				}
			}
		}
	})
}
