package gpu

import (
	"os"
	"testing"
	"unsafe"

	"github.com/flashdec/flashdec/internal/cuda/build"
)

// TestParamsLayout holds the structs to kernels/params.cuh: every field there is
// naturally aligned, in this order.
func TestParamsLayout(t *testing.T) {
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"matrixParams", unsafe.Sizeof(matrixParams{}), 32},
		{"outputParams", unsafe.Sizeof(outputParams{}), 48},
		{"rotationParams", unsafe.Sizeof(rotationParams{}), 176},
		{"rotationParams.kType", unsafe.Offsetof(rotationParams{}.kType), 152},
		{"productParams", unsafe.Sizeof(productParams{}), 384},
		{"productParams.numOutputs", unsafe.Offsetof(productParams{}.numOutputs), 168},
		{"productParams.rotation", unsafe.Offsetof(productParams{}.rotation), 208},
		{"normParams", unsafe.Sizeof(normParams{}), 48},
		{"turnParams", unsafe.Sizeof(turnParams{}), 232},
		{"turnParams.rotation", unsafe.Offsetof(turnParams{}.rotation), 40},
		{"embedParams", unsafe.Sizeof(embedParams{}), 56},
		{"eachParams", unsafe.Sizeof(eachParams{}), 40},
		{"routeParams", unsafe.Sizeof(routeParams{}), 32},
		{"mixParams", unsafe.Sizeof(mixParams{}), 40},
		{"convertParams", unsafe.Sizeof(convertParams{}), 56},
		{"transposeParams", unsafe.Sizeof(transposeParams{}), 56},
		{"fillParams", unsafe.Sizeof(fillParams{}), 32},
	} {
		if f.got != f.want {
			t.Errorf("%s is at or of %d bytes, want %d", f.name, f.got, f.want)
		}
	}
}

// TestKernelsMatchSources fails when kernels/ was changed and kernels.zip was not
// built anew, or the other way round. It needs no nvcc.
func TestKernelsMatchSources(t *testing.T) {
	if _, err := os.Stat(build.Model.Source); err != nil {
		t.Skip("the sources are not here: the test binary runs elsewhere")
	}
	want, err := build.Sums(os.DirFS("../.."), "model/gpu", &build.Model)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(build.SumsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the archive was built from other sources or with other flags, or is another: run go generate ./model/gpu; %s has\n%snow it is\n%s", build.SumsFile, got, want)
	}
	for _, target := range build.Model.Targets {
		image, err := build.Model.Image(archives, target)
		if err != nil {
			t.Fatal(err)
		}
		if len(image) < 1000 {
			t.Errorf("%s has %d bytes", target.File, len(image))
		}
	}
}

// TestTargetForEveryGPU: what cannot wait for the kernel ahead is for GPUs that do not overlap launches.
func TestTargetForEveryGPU(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{{8, 0, "sm_80.cubin"}, {8, 9, "sm_80.cubin"}, {9, 0, "sm_90a.cubin"}, {10, 0, "compute_90.ptx"}, {12, 0, "compute_90.ptx"}} {
		if got := build.Model.For(c.major, c.minor); got.File != c.want {
			t.Errorf("compute capability %d.%d loads %s, want %s", c.major, c.minor, got.File, c.want)
		}
	}
}
