package cuda

import (
	"embed"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

//go:embed *.zip
var archives embed.FS

// Sizes that kernels/*.cuh fix.
const (
	rowsPerSet    = 8  // kRows
	maxRows       = 16 // kMaxRows
	minWarps      = 2
	maxWarps      = 8  // kWarps
	maxTile       = 32 // Sizes::kTile, at most
	maxStages     = 7  // copy_wait
	generalBlock  = 128
	maxGeneralDim = 8192 // two rows of o fit in any GPU's shared memory
)

// variant is one kernel: tensor cores for elements of any type and dims up to
// the given, or the general one.
type variant struct {
	name     string
	bits     int // of an element
	keyDim   int // padded; 0 in the general kernel
	valueDim int
	rows     int // query rows a block takes
	share    share
	traced   bool // of the traced build
}

// share is a block's part of a multiprocessor: the others' number decides how many
// warps it has.
type share int

const (
	amongTwo share = iota
	alone
	amongFour
)

var generalVariant = variant{name: "general", rows: rowsPerSet}

// padded is an instantiation of kernels/decode.cu, and the most rows it comes with.
type padded struct{ key, value, rows int }

// paddedDims are the instantiations for each element type, smallest first.
var paddedDims = map[kv.DType][]padded{
	kv.F32:    {{64, 64, 8}, {128, 128, 8}, {256, 256, 8}},
	kv.F16:    {{64, 64, 16}, {128, 128, 16}, {192, 128, 8}, {256, 256, 8}},
	kv.BF16:   {{64, 64, 16}, {128, 128, 16}, {192, 128, 8}, {256, 256, 8}},
	kv.F8E4M3: {{64, 64, 8}, {128, 128, 16}, {256, 256, 8}},
	kv.F8E5M2: {{64, 64, 8}, {128, 128, 16}, {256, 256, 8}},
	kv.I8:     {{64, 64, 8}, {128, 128, 16}, {256, 256, 8}},
	kv.I4:     {{64, 64, 8}, {128, 128, 16}, {256, 256, 8}},
}

// choose returns the kernel for a step: rows is the most query rows of an item.
func choose(k, v Plane, keyDim, valueDim, rows int) variant {
	if k.Type != v.Type || !k.copyable(keyDim) || !v.copyable(valueDim) {
		return generalVariant
	}
	for _, d := range paddedDims[k.Type] {
		if keyDim > d.key || valueDim > d.value {
			continue
		}
		set := 1
		if rows > rowsPerSet && d.rows > rowsPerSet {
			set = 2
		}
		return variant{
			name:   fmt.Sprintf("decode_%s_%d_%d_%d", k.Type, d.key, d.value, set),
			bits:   k.Type.Bits(),
			keyDim: d.key, valueDim: d.value, rows: set * rowsPerSet,
		}
	}
	return generalVariant
}

// chunkBytes is what is copied at a time.
const chunkBytes = 16

// inChunks reports whether a plane's rows can be copied by chunks.
func (p Plane) inChunks(dim int) bool {
	elements := chunkBytes * 8 / p.Type.Bits()
	return p.Data%chunkBytes == 0 && (dim|p.PageStride|p.HeadStride|p.SlotStride)%elements == 0
}

// copyable reports whether a tensor-core kernel can copy a plane's rows: by chunks, or
// those of float32 by words, which any stride allows. Pages and layouts do not matter for
// their bits, then.
func (p Plane) copyable(dim int) bool {
	return p.inChunks(dim) || p.Type == kv.F32 && dim%(chunkBytes/4) == 0
}

// tileBytes is a ring entry of one warp (Sizes::kTileBytes): keys, values, and the
// scales of codes.
func (v variant) tileBytes() int {
	keys := maxTile
	if v.bits > 8 {
		keys = maxTile / 2
	}
	bytes := keys * (v.keyDim + v.valueDim) * v.bits / 8
	if v.bits <= 8 {
		bytes += 2 * keys * 4
	}
	return bytes
}

// queryBytes is what q takes in shared memory (Sizes::kQBytes).
func (v variant) queryBytes() int {
	steps, sets := v.keyDim/16, v.rows/rowsPerSet
	if steps*sets <= 8 {
		return 0
	}
	return sets * steps * 32 * 16
}

// kernel is a loaded variant with its launch geometry.
type kernel struct {
	variant
	fn     *nv.Function
	warps  int
	stages int
	shared int // dynamic shared memory
	width  int // blocks that run at once on the whole GPU
}

// tuning is the geometry of the tensor-core kernels, by measurement:
// docs/calibration-gpu.md.
type tuning struct {
	warps       int
	sharedBytes int // of a block's ring, at most
}

// geometry is how many warps a block has and how deep their rings are: at least
// three stages in the tuned shared memory, else at least two in all that there
// is, else fewer warps.
func (b *Backend) geometry(v variant) (warps, stages int) {
	fit := func(bytes int) int {
		return min(maxStages, (bytes-v.queryBytes())/(warps*v.tileBytes()))
	}
	t := b.tuning
	switch v.share {
	case alone:
		t = tuning{warps: 2 * t.warps, sharedBytes: b.sharedLimit}
	case amongFour:
		t = tuning{warps: t.warps / 2, sharedBytes: t.sharedBytes / 2}
	}
	warps = t.warps
	if stages = fit(t.sharedBytes); stages >= 3 {
		return warps, stages
	}
	for stages = fit(b.sharedLimit); stages < 2 && warps > minWarps; stages = fit(b.sharedLimit) {
		warps /= 2
	}
	return warps, stages
}

// sharedFor is the dynamic shared memory of a block: the rings, and in their place
// later the warps' states and those of rows that are computed again. The general kernel keeps its state and a sum of states.
func (v variant) sharedFor(warps, stages, valueDim int) int {
	if v.keyDim == 0 {
		return 4 * 2 * v.rows * valueDim
	}
	state := 4 * v.rows * (v.valueDim + 8)  // Sizes::kLd
	again := 2*state + 4*2*maxRows*maxWarps // compute_again
	return v.queryBytes() + max(warps*stages*v.tileBytes(), warps*state+again)
}

// kernel loads a variant once.
func (b *Backend) kernel(v variant, valueDim int) (*kernel, error) {
	key := v
	if v.keyDim == 0 {
		key.valueDim = valueDim // its shared memory depends on it
	}
	if k := b.kernels[key]; k != nil {
		return k, nil
	}
	k := &kernel{variant: v, warps: generalBlock / 32}
	if v.keyDim != 0 {
		k.warps, k.stages = b.geometry(v)
	} else if valueDim > maxGeneralDim {
		return nil, fmt.Errorf("cuda: %w: value dim is %d, want at most %d on a GPU", attn.ErrShape, valueDim, maxGeneralDim)
	} else if v.sharedFor(0, 0, valueDim) > b.sharedLimit {
		k.rows = 1
	}
	k.shared = k.sharedFor(k.warps, k.stages, valueDim)
	if err := b.load(k); err != nil {
		return nil, err
	}
	b.kernels[key] = k
	return k, nil
}

func (b *Backend) load(k *kernel) error {
	module, err := b.module, error(nil)
	if k.traced {
		if module, err = b.tracedModule(); err != nil {
			return err
		}
	}
	if k.fn, err = module.Function(k.name); err != nil {
		if k.traced {
			return fmt.Errorf("cuda: the traced build, which has few kernels to be small, lacks %s: %w", k.name, err)
		}
		return err
	}
	// Variants of one function differ in what they use.
	if err = k.fn.SetAttribute(nv.MaxDynamicShared, b.sharedLimit); err != nil {
		return err
	}
	blocks, err := k.fn.Occupancy(k.warps*32, k.shared)
	if err != nil {
		return err
	}
	if blocks == 0 {
		return fmt.Errorf("cuda: kernel %s does not fit this GPU: %d bytes of shared memory a block", k.name, k.shared)
	}
	k.width = blocks * b.multiprocessors
	return nil
}
