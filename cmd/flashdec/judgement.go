package main

import "strings"

// judgement is a result beside the direct softmax, and beside what the file says.
type judgement struct {
	direct verdict
	file   *verdict // nil where the file says nothing
	lossy  bool     // file is told and not judged

	hasOut, hasLSE bool // what the file says
}

func (j judgement) ok() bool { return j.direct.ok() && (j.file == nil || j.lossy || j.file.ok()) }

// add takes another chunk's judgement in. The zero judgement is of nothing yet.
func (j *judgement) add(k judgement) { j.take(k, (*verdict).add) }

// worst takes in that of another result of the same chunk.
func (j *judgement) worst(k judgement) { j.take(k, (*verdict).worst) }

func (j *judgement) take(k judgement, take func(*verdict, verdict)) {
	before := *j
	*j = k
	take(&j.direct, before.direct)
	if before.file != nil {
		take(j.file, *before.file)
	}
}

// distances are a judgement as reports have it: the largest over all elements that are
// finite in the result and in the reference.
type distances struct {
	MaxAbsErr       float64  `json:"max_abs_err"` // beside the direct softmax
	LSEErr          float64  `json:"lse_err"`
	Limit           float64  `json:"limit"`     // of max_abs_err
	NonFinite       int      `json:"nonfinite"` // elements that are NaN or infinite in one, and not the same in the direct softmax
	Rows            int      `json:"rows"`      // one query of one head each
	NaNRows         int      `json:"nan_rows"`
	InfRows         int      `json:"infinite_rows"`        // with an infinity, and no NaN
	AnswerErr       *float64 `json:"answer_err,omitempty"` // beside the file's own out
	AnswerLSEErr    *float64 `json:"answer_lse_err,omitempty"`
	AnswerLimit     *float64 `json:"answer_limit,omitempty"`
	AnswerNonFinite *int     `json:"answer_nonfinite,omitempty"`
	Judged          *bool    `json:"answer_judged,omitempty"` // the file's own out and lse, where it has any

	judgement
}

func (j judgement) distances() distances {
	d := distances{
		MaxAbsErr: j.direct.Err, LSEErr: j.direct.LSEErr, Limit: j.direct.limit(), NonFinite: j.direct.nonFinite,
		Rows: j.direct.rows, NaNRows: j.direct.nanRows, InfRows: j.direct.infRows, judgement: j,
	}
	if j.file == nil {
		return d
	}
	judged := !j.lossy
	d.Judged, d.AnswerNonFinite = &judged, &j.file.nonFinite
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

// unjudged tells that the file has an answer which is no judge, see judge.lossy.
func (j judgement) unjudged() bool { return j.file != nil && j.lossy }

// print tells the distances in run's report. How far the file's answer lies from what a lossy cache gives is not told:
// the report has the price of the type.
func (j judgement) print(t *terminal) {
	t.printf("error   %s, %s from the float64 softmax %s\n", j.direct.outWords(), j.direct.lseWords(), mark(j.direct.ok()))
	for _, line := range j.direct.notFinite() {
		t.printf("        %s\n", line)
	}
	if j.unjudged() {
		t.printf("answer  not judged: the file's own is of keys and values before rounding\n")
		return
	}
	if j.file == nil {
		return
	}
	var words []string
	if j.hasOut {
		words = append(words, j.file.outWords())
	}
	if j.hasLSE {
		words = append(words, j.file.lseWords())
	}
	t.printf("answer  %s from the file's own %s\n", strings.Join(words, ", "), mark(j.file.ok()))
	if j.file.nonFinite > 0 {
		t.printf("        %s\n", oneSided(j.file.nonFinite))
	}
}

// notFinite are lines on what is not finite beside the direct softmax, none where all is.
func (v verdict) notFinite() (lines []string) {
	rows := v.rowWords()
	if rows != "" && v.nonFinite == 0 {
		rows += ", as in the direct softmax"
	}
	if rows != "" {
		lines = append(lines, rows)
	}
	if v.nonFinite > 0 {
		lines = append(lines, oneSided(v.nonFinite))
	}
	return lines
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}
