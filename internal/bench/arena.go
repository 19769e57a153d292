package bench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// Arena is the memory that cases lie in: touched once, since first touches cost
// more than the reading that is measured. It comes from caches, huge pages and
// all, so that what is measured lies as what is used does.
type Arena struct {
	caches []*kv.Cache
	k, v   []byte    // half the bytes each
	kScale []float32 // one a row, once a case has had scales
	vScale []float32
	dtype  kv.DType
	filled bool
}

// Arenas are an arena a type, each of so many bytes, so that cases of all types can
// be measured in turns.
type Arenas struct {
	bytes int
	of    map[kv.DType]*Arena
}

// NewArenas takes no memory yet.
func NewArenas(bytes int) *Arenas { return &Arenas{bytes, make(map[kv.DType]*Arena)} }

// Of is the arena of a type.
func (a *Arenas) Of(t kv.DType) (*Arena, error) {
	if arena, taken := a.of[t]; taken {
		return arena, nil
	}
	arena, err := NewArena(a.bytes)
	if err != nil {
		return nil, err
	}
	a.of[t] = arena
	return arena, nil
}

// Close gives the memory back.
func (a *Arenas) Close() error {
	var err error
	for _, arena := range a.of {
		err = errors.Join(err, arena.Close())
	}
	return err
}

// Memory is what arenas of so many bytes take for some cases, once all are laid out: that
// much a type, and the scales of its rows of each size.
func Memory(cases []Case, bytes int) int {
	types := make(map[kv.DType]bool)
	rows := make(map[[2]int]bool)
	need := int64(0)
	for i := range cases {
		c := &cases[i]
		if !types[c.DType] {
			need += int64(bytes)
		}
		if row := [2]int{int(c.DType), c.Dim}; !rows[row] {
			need += int64(bytes / c.RowBytes() * c.scaleBytes())
			rows[row] = true
		}
		types[c.DType] = true
	}
	return int(min(need, math.MaxInt)) // what a processor of 32 bits does not have
}

// NewArena takes so many bytes, rounded up to whole rows.
func NewArena(bytes int) (*Arena, error) {
	const dim = 1024
	row := 2 * 4 * dim
	a := &Arena{}
	view, err := a.take(kv.Config{NumKVHeads: 1, KeyDim: dim, ValueDim: dim, PageSize: 1, NumPages: max(1, (bytes+row-1)/row)})
	if err != nil {
		return nil, err
	}
	a.k, a.v = view.K.Data, view.V.Data
	return a, nil
}

// take makes a cache, for its memory alone.
func (a *Arena) take(cfg kv.Config) (kv.View, error) {
	cache, err := kv.New(cfg)
	if err != nil {
		return kv.View{}, err
	}
	a.caches = append(a.caches, cache)
	return cache.View()
}

// Close gives the memory back.
func (a *Arena) Close() error {
	var err error
	for _, cache := range a.caches {
		err = errors.Join(err, cache.Close())
	}
	return err
}

// Gain is what the numbers that codes hold are made larger by, of integers on average:
// normal numbers then use all codes, and hardly one saturates.
func Gain(t kv.DType) float32 {
	switch t {
	case kv.F8E4M3, kv.F8E5M2:
		return 64
	case kv.I8:
		return 52
	case kv.I4:
		return 2.75
	}
	return 1
}

// rowStep is what rows of the cases' dims are multiples of, in elements.
const rowStep = 64

// Numbers are normal numbers as elements of a type, to be repeated: of an odd number
// of rows of rowStep, so that no two rows near each other are the same. Codes are of
// numbers that are [Gain] times larger. Integers are as a cache quantises rows, by
// their own largest element: in each rowStep, one code is the largest that there is.
// Kernels count on that where values have scales of their own, and would take another
// path (docs/NUMERICS.md).
func Numbers(t kv.DType) []byte {
	elem := simd.Elem(t) // a case's type is known
	rng := rand.New(rand.NewPCG(1, uint64(t)))
	floats := make([]float32, (1<<10+1)*rowStep)
	for i := range floats {
		floats[i] = Gain(t) * float32(rng.NormFloat64())
	}
	if largest, integer := map[kv.DType]float32{kv.I8: 127, kv.I4: 7}[t]; integer {
		for row := range slices.Chunk(floats, rowStep) {
			stretch(row, largest)
		}
	}
	block := make([]byte, elem.RowBytes(len(floats)))
	simd.Narrow(block, elem, floats)
	return block
}

// stretch makes a row's largest magnitude that.
func stretch(row []float32, largest float32) {
	size := max(slices.Max(row), -slices.Min(row))
	for i := range row {
		row[i] *= largest / size
	}
}

// fill writes [Numbers] of a type everywhere, unless they are there: the reading does
// not get faster by that. It returns ctx's cause when that is done first: to touch
// gigabytes takes seconds.
func (a *Arena) fill(ctx context.Context, t kv.DType) error {
	if a.filled && a.dtype == t {
		return nil
	}
	a.filled = false
	block := Numbers(t)
	for _, data := range [][]byte{a.k, a.v} {
		for len(data) > 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			data = data[copy(data, block):]
		}
	}
	a.dtype, a.filled = t, true
	return nil
}

// scale sees to so many scales of keys and of values, each of which undoes the
// gain of the codes.
func (a *Arena) scale(rows int, t kv.DType) error {
	if len(a.kScale) < rows {
		// A cache of one code a row has as many scales.
		view, err := a.take(kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 1, NumPages: rows, KeyType: kv.I8, ValueType: kv.I8})
		if err != nil {
			return err
		}
		a.kScale, a.vScale = view.K.Scales.Values, view.V.Scales.Values
	}
	for i := range rows {
		a.kScale[i], a.vScale[i] = 1/Gain(t), 1/Gain(t)
	}
	return nil
}
