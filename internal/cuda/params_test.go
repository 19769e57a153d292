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
		{"regularParams", unsafe.Sizeof(regularParams{}), 48},
		{"params.q", unsafe.Offsetof(params{}.q), 64},
		{"params.maskKeys", unsafe.Offsetof(params{}.maskKeys), 176},
		{"params.numHeads", unsafe.Offsetof(params{}.numHeads), 248},
		{"params.scale", unsafe.Offsetof(params{}.scale), 276},
		{"params", unsafe.Sizeof(params{}), 312},
	} {
		if f.got != f.want {
			t.Errorf("%s is at or of %d bytes, want %d", f.name, f.got, f.want)
		}
	}
}
