//go:build amd64 || arm64

package gpu

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

var measure = flag.Bool("measure", false, "time the products on the first GPU")

// TestMeasureProducts times the products of a layer of eight thousand million weights, each over matrices that
// together are larger than the cache, and the whole of a layer's.
func TestMeasureProducts(t *testing.T) {
	if !*measure {
		t.Skip("-measure is not given")
	}
	g, err := cuda.Open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	d, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	t.Logf("BLAS: %v", d.BLAS())
	if err := d.ctx.Do(func() error { return measureProducts(d) }); err != nil {
		t.Fatal(err)
	}
}

const measureBytes = 4 << 30

func measureProducts(d *Device) error {
	m := memory{ctx: d.ctx}
	defer m.free()
	weights, err := m.take(measureBytes)
	if err != nil {
		return err
	}
	x, err := m.take(64 << 20)
	if err != nil {
		return err
	}
	y, err := m.take(64 << 20)
	if err != nil {
		return err
	}
	fill := func(p nv.Pointer, n int, e elem) error {
		return launch(d, fillNumbers, grid(2048, 1), block, 0, fillParams{data: p, n: int64(n), seed: 1, elem: e, spread: 0.02})
	}
	if err := fill(weights, measureBytes/2, bf16); err != nil {
		return err
	}
	if err := fill(x, 16<<20, f32); err != nil {
		return err
	}
	s := &steps{d: d, n: &network.Network{NormEps: 1e-5}}
	type kind struct {
		name string
		cols int
		rows []int
		f    finish
		norm bool
	}
	layer := []kind{
		{"qkv", 4096, []int{4096, 1024, 1024}, store, true},
		{"out", 4096, []int{4096}, add, false},
		{"gate-up", 4096, []int{14336, 14336}, gated, true},
		{"down", 14336, []int{4096}, add, false},
	}
	cases := [][]kind{layer}
	for _, k := range append(layer, kind{"head", 4096, []int{128256}, store, true}) {
		cases = append(cases, []kind{k})
	}
	for _, c := range cases {
		bytes := 0
		for _, k := range c {
			for _, r := range k.rows {
				bytes += 2 * r * k.cols
			}
		}
		copies := measureBytes / bytes
		for _, n := range []int{1, 2, 4} {
			one := func(i int) error {
				at := weights + nv.Pointer(i%copies*bytes)
				for _, k := range c {
					p := &product{x: x, n: n, finish: k.f}
					if k.norm {
						p.norm = x + 32<<20
					}
					for _, r := range k.rows {
						w := &linear{matrix: matrix{data: at, pitch: 2 * k.cols, rows: r, cols: k.cols, elem: bf16}}
						at += nv.Pointer(2 * r * k.cols)
						p.outputs = append(p.outputs, output{w, y})
					}
					if err := s.multiply(p); err != nil {
						return err
					}
				}
				return nil
			}
			for _, overlap := range []bool{true, false} {
				d.overlaps = overlap
				us, err := timed(d, 40, one)
				if err != nil {
					return err
				}
				name := c[0].name
				if len(c) > 1 {
					name = "layer"
				}
				fmt.Printf("%-8s n=%d overlap=%-5v %8.2f us %6.0f GB/s\n", name, n, overlap, us, float64(bytes)/us/1e3)
			}
		}
	}
	d.overlaps = true
	return nil
}

// timed is the median microseconds of one of so many in a graph.
func timed(d *Device, count int, one func(i int) error) (float64, error) {
	graph, err := d.stream.Capture(func() error {
		for i := range count {
			if err := one(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer graph.Destroy()
	var all []float64
	for range 7 {
		seconds, err := d.seconds(func() error { return graph.Launch(d.stream) })
		if err != nil {
			return 0, err
		}
		all = append(all, seconds*1e6/float64(count))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
