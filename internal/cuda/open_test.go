package cuda

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/cuda/build"
)

var imageFile = flag.String("image", "", "cubin to use instead of the embedded kernels")

// openImage opens the first GPU with the kernels of -image, or the embedded ones.
func openImage() (*Backend, error) {
	if *imageFile == "" {
		return Open(Config{})
	}
	image, err := os.ReadFile(*imageFile)
	if err != nil {
		return nil, err
	}
	return Open(Config{image: image})
}

// open opens the first GPU; without one it skips, or fails where
// FLASHDEC_REQUIRE lists cuda.
func open(t testing.TB) *Backend {
	t.Helper()
	b, err := openImage()
	if err != nil {
		for _, name := range strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ",") {
			if name == "cuda" {
				t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
			}
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestKernelsMatchSources fails when kernels/ was changed and the archives were not
// built anew, or when an archive is another than was built. It needs no nvcc.
func TestKernelsMatchSources(t *testing.T) {
	if _, err := os.Stat("kernels/decode.cu"); err != nil {
		t.Skip("the sources are not here: the test binary runs elsewhere")
	}
	want, err := build.Sums(os.DirFS("../.."), "internal/cuda", build.Archives...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(build.SumsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the archives were built from other sources or with other flags, or are others: run go generate ./internal/cuda; %s has\n%snow it is\n%s", build.SumsFile, got, want)
	}
}

func TestEveryTargetIsEmbedded(t *testing.T) {
	for _, a := range build.Archives {
		for _, target := range a.Targets {
			image, err := a.Image(archives, target)
			if err != nil {
				t.Fatal(err)
			}
			if len(image) < 1000 {
				t.Errorf("%s of %s has %d bytes", target.File, a.File, len(image))
			}
		}
	}
}

func TestTargetForEveryGPU(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{
		{8, 0, "sm_80.cubin"},
		{8, 6, "sm_86.cubin"},
		{8, 7, "sm_86.cubin"},
		{8, 9, "sm_89.cubin"},
		{9, 0, "sm_90a.cubin"},
		{10, 0, "compute_80.ptx"},
		{12, 0, "sm_120.cubin"},
		{12, 1, "sm_120.cubin"},
		{13, 0, "compute_80.ptx"},
	} {
		got := build.Kernels.For(c.major, c.minor)
		if got.File != c.want {
			t.Errorf("compute capability %d.%d loads %s, want %s", c.major, c.minor, got.File, c.want)
		}
		if arch, _, _ := strings.Cut(c.want, "."); got.Arch() != arch {
			t.Errorf("%s is told as kernels of %s, want %s", c.want, got.Arch(), arch)
		}
	}
}
