package cuda

import (
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
)

func TestConformance(t *testing.T) {
	open(t) // skips without a GPU
	backendtest.Run(t, func(tb testing.TB) backend.Backend {
		b, err := Open(Config{})
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}, backendtest.WithoutQuantised(), backendtest.RunsToTheEnd())
}
