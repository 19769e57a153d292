package cuda

import (
	"testing"
	"unsafe"
)

// TestParamsLayout holds the structs to kernels/params.cuh: every field there is
// naturally aligned, in this order.
func TestParamsLayout(t *testing.T) {
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"planeParams", unsafe.Sizeof(planeParams{}), 32},
		{"work", unsafe.Sizeof(work{}), 80},
		{"work.head", unsafe.Offsetof(work{}.head), 8},
		{"work.page", unsafe.Offsetof(work{}.page), 64},
		{"work.capacity", unsafe.Offsetof(work{}.capacity), 72},
		{"storeParams.from", unsafe.Offsetof(storeParams{}.from), 72},
		{"storeParams", unsafe.Sizeof(storeParams{}), 120},
		{"regularParams", unsafe.Sizeof(regularParams{}), 48},
		{"scaleParams", unsafe.Sizeof(scaleParams{}), 40},
		{"scaleParams.kind", unsafe.Offsetof(scaleParams{}.kind), 32},
		{"params.q", unsafe.Offsetof(params{}.q), 144},
		{"params.maskKeys", unsafe.Offsetof(params{}.maskKeys), 248},
		{"params.numHeads", unsafe.Offsetof(params{}.numHeads), 352},
		{"params.scale", unsafe.Offsetof(params{}.scale), 380},
		{"params", unsafe.Sizeof(params{}), 424},
	} {
		if f.got != f.want {
			t.Errorf("%s is at or of %d bytes, want %d", f.name, f.got, f.want)
		}
	}
}
