package main

import (
	"context"
	"math"
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

// verdict is how far a result lies from one reference, over all parts.
type verdict struct {
	Err       float64 // largest |out − reference|
	LSEErr    float64 // largest |lse − reference|
	share     float64 // largest share of the limit of its row, out's
	lseShare  float64 // and the LSE's
	rowLimit  float64 // the limit of the row that share is of
	NonFinite int     // NaN or infinities where the other has none
}

func (v verdict) ok() bool { return v.NonFinite == 0 && v.share <= 1 && v.lseShare <= 1 }

// limit is what Err may be, as a report tells it: the limit of the row that comes
// nearest to its own, in the measure of Err.
func (v verdict) limit() float64 {
	limit := v.rowLimit
	if v.share > 0 {
		limit = v.Err / v.share
	}
	if !(limit <= math.MaxFloat64) { // a row of NaN, which has no numbers to compare
		return 0
	}
	return limit
}

// add takes another part's, or another result's, distance in.
func (v *verdict) add(w verdict) {
	if !(w.share < v.share) {
		v.share, v.rowLimit = w.share, w.rowLimit
	}
	v.Err = max(v.Err, w.Err)
	v.LSEErr = max(v.LSEErr, w.LSEErr)
	v.lseShare = max(v.lseShare, w.lseShare)
	v.NonFinite += w.NonFinite
}

// measure compares a part of a result with a reference, as far as that goes.
func measure(ref attn.Reference, out, lse []float32, limits attn.Limits) (verdict, error) {
	if ref.Out == nil {
		out = nil
	}
	if ref.LSE == nil {
		lse = nil
	}
	d, err := ref.Compare(out, lse, limits)
	return verdict{d.Out, d.LSE, d.OutShare, d.LSEShare, d.OutLimit, d.NonFinite}, err
}

// judgement is a result beside the direct softmax, and beside what the file says.
type judgement struct {
	direct verdict
	file   *verdict // nil where the file says nothing
	lossy  bool     // file is told and not judged

	hasOut, hasLSE bool // what the file says
}

func (j judgement) ok() bool { return j.direct.ok() && (j.file == nil || j.lossy || j.file.ok()) }

// distances are a judgement as reports have it.
type distances struct {
	MaxAbsErr    float64  `json:"max_abs_err"` // beside the direct softmax
	LSEErr       float64  `json:"lse_err"`
	Limit        float64  `json:"limit"`                // of max_abs_err
	NonFinite    int      `json:"nonfinite"`            // NaN or infinities where a reference has none, or the reverse
	AnswerErr    *float64 `json:"answer_err,omitempty"` // beside the file's own out
	AnswerLSEErr *float64 `json:"answer_lse_err,omitempty"`
	AnswerLimit  *float64 `json:"answer_limit,omitempty"`
	Judged       *bool    `json:"answer_judged,omitempty"` // the file's own out and lse, where it has any

	directOK, answerOK bool // within all limits, the LSE's too
}

func (j judgement) distances() distances {
	d := distances{
		MaxAbsErr: j.direct.Err, LSEErr: j.direct.LSEErr, Limit: j.direct.limit(), NonFinite: j.direct.NonFinite,
		directOK: j.direct.ok(), answerOK: j.file == nil || j.file.ok(),
	}
	if j.file == nil {
		return d
	}
	judged := !j.lossy
	d.Judged = &judged
	d.NonFinite += j.file.NonFinite
	if j.hasLSE {
		d.AnswerLSEErr = &j.file.LSEErr
	}
	if j.hasOut {
		d.AnswerErr = &j.file.Err
		if !j.lossy { // else the answer is no judge
			limit := j.file.limit()
			d.AnswerLimit = &limit
		}
	}
	return d
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

// add takes another judgement in: of another chunk, or of another result of the same.
// The zero judgement is of nothing yet.
func (j *judgement) add(k judgement) {
	before := *j
	*j = k
	j.direct.add(before.direct)
	if before.file != nil {
		j.file.add(*before.file)
	}
}

// unjudged tells that the file has an answer which is no judge, see judge.lossy.
func (d distances) unjudged() bool { return d.Judged != nil && !*d.Judged }

// print tells the distances in run's report. How far the file's answer lies from what a lossy cache gives is not told:
// the report has the price of the type.
func (d distances) print(t *terminal) {
	t.printf("error   out %.2g (limit %.2g), lse %.2g from the float64 softmax %s\n", d.MaxAbsErr, d.Limit, d.LSEErr, mark(d.directOK))
	if d.NonFinite > 0 {
		t.printf("        %s NaN or infinite on one side only\n", count(d.NonFinite, "element"))
	}
	switch {
	case d.unjudged():
		t.printf("answer  not judged: the file's own is of keys and values before rounding\n")
	case d.AnswerLimit != nil && d.AnswerLSEErr != nil:
		t.printf("answer  out %.2g (limit %.2g), lse %.2g from the file's own %s\n", *d.AnswerErr, *d.AnswerLimit, *d.AnswerLSEErr, mark(d.answerOK))
	case d.AnswerLimit != nil:
		t.printf("answer  out %.2g (limit %.2g) from the file's own %s\n", *d.AnswerErr, *d.AnswerLimit, mark(d.answerOK))
	}
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}
