package cpu_test

import (
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
)

func TestConformance(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("TestConformanceOfHelpers asks the same of the same code")
	}
	conform(t, cpu.New, 0)
}

// TestConformanceOfHelpers: small cases, too, are computed by several goroutines,
// whatever the number of processors.
func TestConformanceOfHelpers(t *testing.T) { conform(t, cpu.NewEager, 4) }

func conform(t *testing.T, open func(cpu.Options) *cpu.Backend, threads int) {
	backendtest.Run(t,
		func(testing.TB) backend.Backend { return open(cpu.Options{Threads: threads}) },
		backendtest.WithThreads(func(_ testing.TB, threads int) backend.Backend {
			return open(cpu.Options{Threads: threads})
		}),
		backendtest.ReadsInPlace(),
	)
}
