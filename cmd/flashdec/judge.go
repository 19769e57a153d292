package main

import (
	"context"
	"sync"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/tensorfile"
)

// ownLimits are how far a result may lie from the direct softmax of the same inputs.
func (c *decodeCase) ownLimits() attn.Limits {
	l := attn.Float32Limits(c.shape.KeyDim)
	if c.roundsWeights {
		l = l.RoundedWeights()
	}
	return l
}

// answerLimits are how far a result may lie from what a file says is right, which
// was not computed from what is computed here where its inputs are float64, and
// may have been rounded itself. These causes add to the limits of float32:
//
//	of float64 inputs    out 2⁻²⁴·max|v|, score 2 units, lse 2⁻²⁴·|lse|: v, q and k, sinks
//	stored in float32    out 2⁻²⁴·max|v|, lse 2⁻²⁴·|lse|
//	stored in float16    out 2⁻¹¹·max|v|, lse 2⁻¹¹·|lse|
//	stored in bfloat16   out 2⁻⁸·max|v|,  lse 2⁻⁸·|lse|
//
// Rounding an answer moves it by half a unit in its last place, and |out| is at
// most max|v|.
func (c *decodeCase) answerLimits() attn.Limits {
	l := c.ownLimits()
	if c.rounded {
		l.Out += 0x1p-24
		l.LSERelative += 0x1p-24
		l.Score += 2
	}
	if c.out != nil {
		l.Out += halfUnit(c.out.DType)
	}
	if c.lse != nil {
		l.LSERelative += halfUnit(c.lse.DType)
	}
	return l
}

// halfUnit is the largest relative error of rounding to a type.
func halfUnit(t tensorfile.DType) float64 {
	switch t {
	case tensorfile.F32:
		return 0x1p-24
	case tensorfile.F16:
		return 0x1p-11
	case tensorfile.BF16:
		return 0x1p-8
	}
	return 0
}

// judge compares results of a case with the direct softmax and with the file's
// answer.
type judge struct {
	c       *decodeCase
	from    source // what the direct softmax reads
	threads int
	keep    bool   // the references, for further results
	lossy   bool   // what is computed on is not what the file's answer was computed from
	step    func() // called as each block is done, or nil
	kept    []attn.Reference
	of      piece // the chunk that they are of
}

// keepBytes bounds the references that are kept: further ones are computed anew
// for each result.
const keepBytes = 16 << 20

// blocksKept is how many of a chunk's blocks' references keepBytes are enough for.
func (c *decodeCase) blocksKept(chunk piece) int {
	rows := min(chunk.queries, c.blockQueries()) * c.shape.GroupSize()
	const slices, numbers = 4, 3 // of a reference, and of each row beside its output
	return min(c.blocks(chunk), keepBytes/(slices*24+rows*(c.shape.ValueDim+numbers)*8))
}

func (j *judge) reference(ctx context.Context, i int, got *decoded) (ref attn.Reference, err error) {
	if i < len(j.kept) && j.kept[i].Out != nil {
		return j.kept[i], nil
	}
	b := j.c.block(got.piece, i)
	ref, err = j.c.direct(ctx, b, j.c.pick(got.q, got.piece, b, j.c.shape.KeyDim), j.from)
	if err == nil && i < len(j.kept) {
		j.kept[i] = ref
	}
	return ref, err
}

// judge compares a chunk's result with all that is known of it.
func (j *judge) judge(ctx context.Context, got *decoded) (judgement, error) {
	if j.keep && (j.kept == nil || j.of != got.piece) {
		j.kept, j.of = make([]attn.Reference, j.c.blocksKept(got.piece)), got.piece
	}
	var (
		mu     sync.Mutex
		result judgement
		limits = j.c.answerLimits()
	)
	result.hasOut, result.hasLSE = j.c.out != nil, j.c.lse != nil
	if result.hasOut || result.hasLSE {
		result.file, result.lossy = &verdict{}, j.lossy
	}
	err := each(ctx, j.workers(), j.c.blocks(got.piece), func(i int) error {
		direct, file, err := j.measure(ctx, i, got, limits)
		if err != nil {
			return j.c.named(err)
		}
		mu.Lock()
		defer mu.Unlock()
		result.direct.add(direct)
		if result.file != nil {
			result.file.add(file)
		}
		if j.step != nil {
			j.step()
		}
		return nil
	})
	return result, err
}

// workers is how many blocks are judged at a time: as many as there are threads,
// as far as memory goes in proportion to the case. Each has the scores of some
// rows (two float64 a key, 8 MB where the keys are few) and a few copies of its
// rows.
func (j *judge) workers() int {
	const most, spare = 12 << 20, 48 << 20 // bytes
	return min(j.threads, max(1, (spare+j.c.kvBytes()/8)/most))
}

// measure compares one block of a result.
func (j *judge) measure(ctx context.Context, i int, got *decoded, limits attn.Limits) (direct, file verdict, err error) {
	b := j.c.block(got.piece, i)
	out, lse := j.c.pick(got.Out, got.piece, b, j.c.shape.ValueDim), j.c.pick(got.LSE, got.piece, b, 1)
	ref, err := j.reference(ctx, i, got)
	if err != nil {
		return direct, file, err
	}
	if direct, err = measure(ref, out, lse, j.c.ownLimits()); err != nil {
		return direct, file, err
	}
	answer, err := j.c.answer(b)
	if err != nil {
		return direct, file, err
	}
	answer.AbsScore, answer.AbsValue = ref.AbsScore, ref.AbsValue
	file, err = measure(answer, out, lse, limits)
	return direct, file, err
}
