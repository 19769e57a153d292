package cuda

import (
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
)

func TestConformance(t *testing.T) {
	open(t) // skips without a GPU
	backendtest.Run(t, func(tb testing.TB) backend.Backend {
		b, err := openImage()
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}, backendtest.RunsToTheEnd())
}
