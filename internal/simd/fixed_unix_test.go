//go:build unix

package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestDotStaysInItsMemory: rows and x at the ends of their memory, with inaccessible pages behind them and,
// once more, before them.
func TestDotStaysInItsMemory(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(17, 18))
		for b := range Block(NumBlocks) {
			for blocks := 1; blocks <= 9; blocks++ {
				for _, atEnd := range []bool{true, false} {
					const rows = 5 // four of which may go together, and one left
					data := guarded(t, rows*blocks*b.Bytes(), atEnd)
					copy(data, randomBlocks(rng, b, rows*blocks))
					x, y := guardedFloats(t, blocks*b.Elements(), atEnd), guardedFloats(t, rows, atEnd)
					for i := range x {
						x[i] = float32(rng.NormFloat64())
					}
					v := new(Vector)
					v.Set(x, b)
					if x := &v.forms[formOf(b)]; x.chunks != nil { // the whole of it is read, to the last line
						fixed := guarded(t, len(x.chunks), atEnd)
						copy(fixed, x.chunks)
						x.chunks = fixed
						if at := uintptr(unsafe.Pointer(unsafe.SliceData(fixed))); atEnd && at%lineBytes != 0 {
							t.Fatalf("%d blocks: fixed point begins at %#x", blocks, at)
						}
					}
					Dot(b)(y, v, data)
					want := make([]float32, rows)
					Dot(b)(want, vector(append([]float32(nil), x...), b), append([]byte(nil), data...))
					if fmt.Sprint(y) != fmt.Sprint(want) {
						t.Errorf("%v, %d blocks: %v, elsewhere %v", b, blocks, y, want)
					}
				}
			}
		}
	})
}
