package gpu

import (
	"embed"
	"fmt"
	"unsafe"

	"github.com/flashdec/flashdec/internal/cuda/build"
	"github.com/flashdec/flashdec/internal/nv"
)

//go:generate go run ../../internal/cuda/gen -model

//go:embed kernels.zip
var archives embed.FS

// kernelID numbers the kernels of kernels/steps.cu.
type kernelID int

const (
	product1 kernelID = iota
	product2
	product4
	blockProduct1
	blockProduct2
	blockProduct4
	normRows
	embedRows
	turnStore
	gateNumbers
	biasNumbers
	routeTokens
	mixAnswers
	convertRows
	transposeMatrix
	fillNumbers
	readFloor
	numKernels
)

var kernelNames = [numKernels]string{
	product1: "product_1", product2: "product_2", product4: "product_4",
	blockProduct1: "block_product_1", blockProduct2: "block_product_2", blockProduct4: "block_product_4",
	normRows: "norm_rows", embedRows: "embed_rows", turnStore: "turn_store",
	gateNumbers: "gate_numbers", biasNumbers: "bias_numbers", routeTokens: "route_tokens", mixAnswers: "mix_answers",
	convertRows: "convert_rows", transposeMatrix: "transpose_matrix", fillNumbers: "fill_numbers", readFloor: "read_floor",
}

const (
	block        = 256 // threads, of all kernels but products and route_tokens
	productBlock = 512 // kProductThreads, of one block a multiprocessor
	warp         = 32
	staticShared = 1 << 10 // above what the products declare statically
	maxGridY     = 65535
)

func (d *Device) loadKernels(t build.Target) error {
	image, err := build.Model.Image(archives, t)
	if err != nil {
		return fmt.Errorf("gpu: %w", err)
	}
	if d.module, err = d.ctx.LoadModule(image); err != nil {
		return fmt.Errorf("gpu: loading %s: %w", t.File, err)
	}
	for i, name := range kernelNames {
		if d.kernels[i], err = d.module.Function(name); err != nil {
			return err
		}
	}
	for i, overlaps := range overlapping {
		if !overlaps {
			continue
		}
		// A multiprocessor changes how much of its L1 cache is shared memory only when it is idle: what overlaps
		// with attention wants as much of it.
		if err := d.kernels[i].SetAttribute(nv.SharedCarveout, 100); err != nil {
			return err
		}
	}
	for id := product1; id <= blockProduct4; id++ {
		if err := d.kernels[id].SetAttribute(nv.MaxDynamicShared, d.sharedLimit); err != nil {
			return err
		}
	}
	return nil
}

// launch puts a kernel into the stream. It must run inside the context's Do.
func launch[P any](d *Device, id kernelID, grid nv.Dim3, threads, shared int, p P) error {
	if grid.X == 0 || grid.Y == 0 {
		return nil
	}
	return d.kernels[id].Launch(d.stream, nv.Launch{
		Grid: grid, Block: nv.Dim3{X: uint32(threads), Y: 1, Z: 1}, SharedBytes: shared, Overlap: d.overlaps && overlapping[id],
	}, unsafe.Pointer(&p))
}

// overlapping are the kernels that wait for the one ahead themselves.
var overlapping = [numKernels]bool{
	product1: true, product2: true, product4: true, blockProduct1: true, blockProduct2: true, blockProduct4: true,
	normRows: true, embedRows: true, turnStore: true,
	routeTokens: true, mixAnswers: true,
}

func grid(x, y int) nv.Dim3 { return nv.Dim3{X: uint32(x), Y: uint32(y), Z: 1} }

func tiles(n, size int) int { return (n + size - 1) / size }
