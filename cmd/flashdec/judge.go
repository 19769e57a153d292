package main

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/tensorfile"
)

// How far a result may lie from what a file says is right, in multiples of the
// limits of package attn. A file's answer was not computed from what is computed
// here where its inputs are float64, and may have been rounded itself.
//
//	answer               out: OutLimit·max|v| plus   lse: the limits of attn plus
//	of float32 inputs    0                           0
//	of float64 inputs    OutLimit·max|v|             LSELimit
//	stored in float32    2⁻²⁴·max|v|                 2⁻²⁴·|lse|
//	stored in float16    2⁻¹¹·max|v|                 2⁻¹¹·|lse|
//	stored in bfloat16   2⁻⁹·max|v|                  2⁻⁹·|lse|
//
// Rounding q and k to float32 moves a score by at most δ = 2·2⁻²⁴·scale·Σ|q·k|.
// Scores moved by δ move an average of v by at most 2δ·max|v|, and the LSE by δ;
// with scale·Σ|q·k| up to 40, past which softmax is one-hot, 2δ is below 1e-5.
// Rounding an answer moves it by half a unit in its last place, and |out| is at
// most max|v|.
type answerLimits struct{ outShare, lseAbsolute, lseRelative float64 }

// ownLimits are those of a result beside the direct softmax of the same inputs.
var ownLimits = answerLimits{outShare: attn.OutLimit, lseAbsolute: attn.LSELimit, lseRelative: attn.LSERelative}

func (c *decodeCase) answerLimits() answerLimits {
	l := ownLimits
	if c.rounded {
		l.outShare += attn.OutLimit
		l.lseAbsolute += attn.LSELimit
	}
	if c.out != nil {
		l.outShare += halfUnit(c.out.DType)
	}
	if c.lse != nil {
		l.lseRelative += halfUnit(c.lse.DType)
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
		return 0x1p-9
	}
	return 0
}

// verdict is how far a result lies from one reference, over all parts.
type verdict struct {
	Err       float64 // largest |out − reference|
	LSEErr    float64 // largest |lse − reference|
	lseShare  float64 // largest share of the LSE's own limit
	NonFinite int     // NaN or infinities where the other has none
	Limit     float64 // of Err
}

func (v verdict) ok() bool { return v.NonFinite == 0 && v.Err <= v.Limit && v.lseShare <= 1 }

// add takes another part's, or another result's, distance in.
func (v *verdict) add(w verdict) {
	v.Err = max(v.Err, w.Err)
	v.LSEErr = max(v.LSEErr, w.LSEErr)
	v.lseShare = max(v.lseShare, w.lseShare)
	v.NonFinite += w.NonFinite
}

// measure compares a part of a result with a reference, as far as that goes.
func (l answerLimits) measure(ref attn.Reference, out, lse []float32) (verdict, error) {
	if ref.Out == nil {
		out = nil
	}
	if ref.LSE == nil {
		lse = nil
	}
	d, err := ref.Compare(out, lse)
	v := verdict{Err: d.Out, LSEErr: d.LSE, NonFinite: d.NonFinite}
	for i := range lse {
		want := ref.LSE[i]
		// Where either is not finite, NonFinite has judged it.
		if diff := math.Abs(float64(lse[i]) - want); diff <= d.LSE {
			v.lseShare = max(v.lseShare, diff/(l.lseAbsolute+l.lseRelative*math.Abs(want)))
		}
	}
	return v, err
}

// judgement is a result beside the direct softmax, and beside what the file says.
type judgement struct {
	direct verdict
	file   *verdict // nil where the file says nothing
	lossy  bool     // file is told and not judged
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
}

func (j judgement) distances() distances {
	d := distances{MaxAbsErr: j.direct.Err, LSEErr: j.direct.LSEErr, Limit: j.direct.Limit, NonFinite: j.direct.NonFinite}
	if j.file != nil {
		d.AnswerErr, d.AnswerLSEErr = &j.file.Err, &j.file.LSEErr
		if !j.lossy { // else the answer is no judge
			d.AnswerLimit = &j.file.Limit
		}
		d.NonFinite += j.file.NonFinite
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
	step    func() // called as each part is done, or nil
	kept    []reference
}

// reference is the direct softmax of a part, and the scale of its values.
type reference struct {
	attn.Reference
	maxV float64 // largest |v|
}

func (j *judge) reference(p part) (ref reference, err error) {
	i := p.seq*j.c.shape.NumKVHeads + p.head
	if j.kept != nil && j.kept[i].Out != nil {
		return j.kept[i], nil
	}
	if ref.Reference, err = j.c.direct(p, j.from); err != nil {
		return ref, err
	}
	ref.maxV = attn.MaxAbsValue(j.c.partShape(), j.from(p))
	if j.kept != nil {
		j.kept[i] = ref
	}
	return ref, nil
}

// judge compares a result with all that is known of the case.
func (j *judge) judge(ctx context.Context, got *flashdec.Output) (judgement, error) {
	if j.keep && j.kept == nil {
		j.kept = make([]reference, len(j.c.parts()))
	}
	var (
		mu     sync.Mutex
		result judgement
		maxV   float64
		limits = j.c.answerLimits()
	)
	if j.c.out != nil || j.c.lse != nil {
		result.file, result.lossy = &verdict{}, j.lossy
	}
	err := j.c.eachPart(ctx, j.threads, func(p part) error {
		ref, direct, file, err := j.measure(p, got, limits)
		if err != nil {
			return fmt.Errorf("%s: %w", j.c.path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		maxV = max(maxV, ref.maxV)
		result.direct.add(direct)
		if result.file != nil {
			result.file.add(file)
		}
		if j.step != nil {
			j.step()
		}
		return nil
	})
	result.direct.Limit = ownLimits.outShare * maxV
	if result.file != nil {
		result.file.Limit = limits.outShare * maxV
	}
	return result, err
}

// measure compares one part of a result.
func (j *judge) measure(p part, got *flashdec.Output, limits answerLimits) (ref reference, direct, file verdict, err error) {
	out, lse := j.c.pick(got.Out, p, j.c.shape.ValueDim), j.c.pick(got.LSE, p, 1)
	if ref, err = j.reference(p); err != nil {
		return ref, direct, file, err
	}
	if direct, err = ownLimits.measure(ref.Reference, out, lse); err != nil {
		return ref, direct, file, err
	}
	answer, err := j.c.answer(p)
	if err != nil {
		return ref, direct, file, err
	}
	file, err = limits.measure(answer, out, lse)
	return ref, direct, file, err
}

// add takes another result's judgement in, of the same case.
func (j *judgement) add(k judgement) {
	j.direct.add(k.direct)
	if j.file != nil {
		j.file.add(*k.file)
	}
}

// print tells the distances in run's report.
func (d distances) print(t *terminal) {
	t.printf("error   %.2g from the direct float64 softmax, limit %.2g %s\n", d.MaxAbsErr, d.Limit, mark(d.MaxAbsErr <= d.Limit && d.NonFinite == 0))
	if d.NonFinite > 0 {
		t.printf("        %s NaN or infinite on one side only\n", count(d.NonFinite, "element"))
	}
	switch {
	case d.AnswerErr == nil:
	case d.AnswerLimit == nil:
		t.printf("answer  %.2g from the file's own out, which was computed from other keys and values\n", *d.AnswerErr)
	default:
		t.printf("answer  %.2g from the file's own out, limit %.2g %s\n", *d.AnswerErr, *d.AnswerLimit, mark(*d.AnswerErr <= *d.AnswerLimit))
	}
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}
