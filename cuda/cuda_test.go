package cuda_test

import (
	"errors"
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
		t.Skip(err)
	}
	if info := b.Info(); info.Name != "cuda" || info.Device == "" || info.Width < 1 {
		t.Errorf("info %+v", info)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
