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
	if err := madeUpNumbers(d, x, 16<<20, f32, 1, 0.02); err != nil {
		return err
	}
	s := &steps{d: d, n: &network.Network{NormEps: 1e-5}}
	for _, e := range []elem{bf16, q8_0, q4_0, q4_1, q4_K, q6_K} {
		if err := madeUpWeights(d, matrix{data: weights, rows: 1 << 16, pitch: measureBytes >> 16, elem: e}, 1); err != nil {
			return err
		}
		for _, n := range []int{1, 2, 4} {
			for _, d.overlaps = range []bool{false, true} {
				line := fmt.Sprintf("elements %2d, n=%d, overlap=%-5v:", e, n, d.overlaps)
				for _, c := range productCases {
					us, bytes, err := s.timeProducts(c, e, n, weights, x, y)
					if err != nil {
						return err
					}
					line += fmt.Sprintf(" %s %.2f us, %.0f GB/s", c.name, us, float64(bytes)/us/1e3)
				}
				fmt.Println(line)
			}
		}
	}
	return nil
}

// productCase are the products of a layer, or one.
type productCase struct {
	name     string
	products []productSize
}

type productSize struct {
	cols int
	rows []int
	f    finish
	norm bool
}

var (
	qkvSize  = productSize{4096, []int{4096, 1024, 1024}, store, true}
	outSize  = productSize{4096, []int{4096}, add, false}
	gateSize = productSize{4096, []int{14336, 14336}, gated, true}
	downSize = productSize{14336, []int{4096}, add, false}
	headSize = productSize{4096, []int{128256}, store, true}

	productCases = []productCase{
		{"layer", []productSize{qkvSize, outSize, gateSize, downSize}},
		{"qkv", []productSize{qkvSize}},
		{"out", []productSize{outSize}},
		{"gate-up", []productSize{gateSize}},
		{"down", []productSize{downSize}},
		{"head", []productSize{headSize}},
	}
)

// timeProducts is the microseconds of n rows, over weights that are others each time, and their bytes.
func (s *steps) timeProducts(c productCase, e elem, n int, weights, x, y nv.Pointer) (us float64, bytes int, err error) {
	pitch := func(cols int) int { return tiles(e.rowBytes(cols), rowUnit) * rowUnit }
	for _, k := range c.products {
		for _, r := range k.rows {
			bytes += r * pitch(k.cols)
		}
	}
	us, err = timed(s.d, 40, func(i int) error {
		at := weights + nv.Pointer(i%(measureBytes/bytes)*bytes)
		for _, k := range c.products {
			p := &product{x: x, n: n, finish: k.f}
			if k.norm {
				p.norm = x + 32<<20
			}
			for _, r := range k.rows {
				w := &linear{matrix: matrix{data: at, pitch: pitch(k.cols), rows: r, cols: k.cols, elem: e}}
				at += nv.Pointer(r * pitch(k.cols))
				p.outputs = append(p.outputs, output{w, y})
			}
			if err := s.multiply(p); err != nil {
				return err
			}
		}
		return nil
	})
	return us, bytes, err
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
