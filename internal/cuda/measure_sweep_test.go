package cuda

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

var measureSweep = flag.Bool("measure-sweep", false, "print the time of short steps by splits and warps")

// TestMeasureSweep prints, for one short sequence of bf16, how long a step takes with
// every number of splits and warps a block that may suit it: what the plan's costs, and
// aloneKeys, come from. The best of a line is marked. It runs with -measure-sweep only.
func TestMeasureSweep(t *testing.T) {
	if !*measureSweep {
		t.Skip("times on request: -measure-sweep")
	}
	b, err := openImage()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Do(func() error {
		m, err := newMeter(b)
		if err != nil {
			return err
		}
		for _, heads := range []int{1, 2, 4, 8} {
			for n := 1 << 10; n <= 1<<14; n *= 2 {
				if err := m.sweep(timing{batch: 1, hq: 4 * heads, hkv: heads, dim: 128, lens: []int{n}, dtype: kv.BF16}); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// sweepSplits are the numbers of splits that are tried, as long as each has 32 keys.
var sweepSplits = []int{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128}

// sweep prints a case's lines, one for each number of warps.
func (m *meter) sweep(c timing) error {
	chosen, sc, err := m.step(c, 0, 0)
	if err != nil {
		return err
	}
	fmt.Printf("%d KV heads, %d keys; the plan: %d splits of %d warps\n", c.hkv, c.lens[0], sc.Plan.Units[0].NumSplits, chosen.kernel.warps)
	if err := chosen.free(); err != nil {
		return err
	}
	for _, geometry := range []tuning{{warps: 4, sharedBytes: 104 << 10}, {warps: 8, sharedBytes: m.b.sharedLimit}} {
		var times []float64
		for _, splits := range sweepSplits {
			if splits*32 > c.lens[0] || splits*c.hkv > 4*m.b.multiprocessors {
				break
			}
			seconds, err := m.quick(c, geometry, splits)
			if err != nil {
				return err
			}
			times = append(times, seconds)
		}
		fmt.Printf("  %d warps", geometry.warps)
		for i, seconds := range times {
			mark := " "
			if seconds == slices.Min(times) {
				mark = "*"
			}
			fmt.Printf("  %3d:%6.2f%s", sweepSplits[i], seconds*1e6, mark)
		}
		fmt.Println()
	}
	return nil
}

// quick is the median of a few replays, with blocks of that geometry whatever the plan.
func (m *meter) quick(c timing, geometry tuning, splits int) (seconds float64, err error) {
	m.b.tuning = geometry
	clear(m.b.kernels)
	defer func() {
		m.b.tuning = tuningFor(m.b.sharedLimit)
		clear(m.b.kernels)
	}()
	s, sc, err := m.forced(c, splits)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	sets := m.sets(c.kvBytes())
	r, err := m.Capture(Launches(c.kvBytes(), sets), func(stream *nv.Stream, i int) error {
		bufs := Buffers{K: sc.K, V: sc.V, Q: m.q, Out: m.out}
		bufs.K.Data = m.pool + nv.Pointer(i%sets*c.kvBytes())
		bufs.V.Data = bufs.K.Data + nv.Pointer(c.kvBytes()/2)
		return s.Launch(stream, bufs)
	})
	if err != nil {
		return 0, err
	}
	all, err := r.Times(4, 0.004)
	if err = errors.Join(err, r.Close()); err != nil {
		return 0, err
	}
	return all[len(all)/2], nil
}

// forced is the case's step with so many splits and the backend's geometry as it is: a
// plan that is invariant has no other.
func (m *meter) forced(c timing, splits int) (*Step, StepConfig, error) {
	sc, err := m.config(c, splits, 0)
	if err != nil {
		return nil, sc, err
	}
	sc.Plan.Config.Invariant = true
	s, err := m.b.newStep(sc)
	return s, sc, err
}
