package cuda_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/cuda"
)

// TestOpen: there is a GPU, or an error that says what is missing.
func TestOpen(t *testing.T) {
	b, err := cuda.Open(cuda.Options{})
	if err != nil {
		if b != nil {
			t.Error("a backend beside an error")
		}
		if !errors.Is(err, cuda.ErrNoGPU) || !strings.HasPrefix(err.Error(), "no GPU: ") {
			t.Errorf("got %v", err)
		}
		skip(t, err)
	}
	if info := b.Info(); info.Name != "cuda" || info.Device == "" || info.Width < 1 {
		t.Errorf("info %+v", info)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// skip skips without a GPU, or fails where FLASHDEC_REQUIRE lists cuda.
func skip(t *testing.T, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
		t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
	}
	t.Skip(err)
}
