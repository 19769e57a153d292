package bench

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/plainjson"
)

// Row is what one way did on one case, as it is printed and recorded. Lengths and
// bytes are those that it computed, which for slow ones are fewer than the case has.
type Row struct {
	Suite    string  `json:"suite"`
	Case     string  `json:"case"`
	Backend  string  `json:"backend"`
	Kernel   string  `json:"kernel"`
	Impl     string  `json:"impl"`
	Batch    int     `json:"batch"`
	QHeads   int     `json:"q_heads"`
	KVHeads  int     `json:"kv_heads"`
	KeyDim   int     `json:"key_dim"`
	ValueDim int     `json:"value_dim"`
	Len      int     `json:"len"`  // of the longest sequence
	Keys     int     `json:"keys"` // that all queries saw
	QLen     int     `json:"q_len"`
	KVDType  string  `json:"kv_dtype"`
	PageSize int     `json:"page_size"`
	Threads  int     `json:"threads"`
	Splits   int     `json:"splits"`
	Rounds   int     `json:"rounds"`
	Seconds  float64 `json:"seconds"` // median
	Min      float64 `json:"seconds_min"`
	KVBytes  int64   `json:"kv_bytes"`
	Rate     float64 `json:"bytes_per_second"`
	Ceiling  float64 `json:"ceiling_bytes_per_second"` // of a bare read just before, each round
	Spread   float64 `json:"ceiling_spread"`           // how far its fastest round lay above the median
	Share    float64 `json:"share"`                    // of the bare read just before: median over rounds
	GPUs     int     `json:"gpus"`
	Device   string  `json:"device"`
	Commit   string  `json:"commit"`
	Command  string  `json:"command"`
	Note     string  `json:"note,omitempty"`
	Against  string  `json:"against,omitempty"` // the case that was measured in the same rounds to compare with
	Times    float64 `json:"times,omitempty"`   // keys a second, of those of the same way there: median over rounds
	Tuned    string  `json:"tuned,omitempty"`   // what flashdec tune found, where it was used

	// Of a model's decode step, where Len is the tokens that it saw, its own counted.
	Model       string  `json:"model,omitempty"`
	WeightBytes int64   `json:"weight_bytes,omitempty"` // that the step reads beside KVBytes
	TokenRate   float64 `json:"tokens_per_second,omitempty"`

	// Of a prompt that a model reads, where Len is its tokens.
	MultiplyAdds int64   `json:"multiply_adds,omitempty"`                 // that reading it takes
	Peak         float64 `json:"peak_multiply_adds_per_second,omitempty"` // of nothing but these, just before
}

// Floor is how many seconds the machine takes for nothing but what bounds a step: reading its bytes, or multiplying
// and adding. It is 0 where that was not measured.
func (r *Row) Floor() float64 {
	switch {
	case r.Peak > 0:
		return float64(r.MultiplyAdds) / r.Peak
	case r.Ceiling > 0:
		return float64(r.Bytes()) / r.Ceiling
	}
	return 0
}

// Bytes are all that a step reads.
func (r *Row) Bytes() int64 { return r.WeightBytes + r.KVBytes }

// Row is what a measured way has to report. Suite, commit and command are the
// caller's to add.
func (im *Impl) Row(name string, threads int, info backend.Info) Row {
	c := &im.Case
	rate, ceiling := float64(im.bytes)/Median(im.seconds), Median(im.ceiling)
	row := Row{
		Case: name, Backend: info.Name, Kernel: cmp.Or(im.kernel, info.Kernel), Impl: im.Name,
		Batch: len(c.Lens), QHeads: c.Heads, KVHeads: c.KVHeads, KeyDim: c.Dim, ValueDim: c.Dim,
		Len: slices.Max(c.Lens), Keys: c.Keys(), QLen: 1, KVDType: cmp.Or(im.dtype, c.DType.String()), PageSize: c.PageSize,
		Threads: threads, Splits: im.Splits,
		Rounds: len(im.seconds), Seconds: Median(im.seconds), Min: slices.Min(im.seconds), KVBytes: int64(im.bytes),
		Rate: rate, Ceiling: ceiling, Spread: slices.Max(im.ceiling)/ceiling - 1, Share: shareOf(float64(im.bytes), im.seconds, im.ceiling),
		Device: info.Device, Note: im.Note,
	}
	if row.Times = im.times(); row.Times > 0 {
		row.Against = c.Against
	}
	return row
}

// calm is how far the rounds of a bare read lie apart on a machine that does
// nothing else.
const calm = 0.15

// Disturbed reports a share whose ceiling cannot be trusted.
func (r *Row) Disturbed() bool { return r.Spread > calm || r.Beyond() }

// Beyond reports a share that is printed as more than 100%: nothing takes less time than a part of it alone.
func (r *Row) Beyond() bool { return r.Share >= 1.005 }

// ReadRows reads recorded rows, one JSON object a line.
func ReadRows(r io.Reader) ([]Row, error) {
	var rows []Row
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var row Row
		if err := plainjson.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := row.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rows = append(rows, row)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes, want a row a line", n, maxLine)
	}
	return rows, lines.Err()
}

// maxLine bounds a recorded row, in bytes.
const maxLine = 1 << 20

// Bounds of what a row may hold: no machine has measured more, and what is made of rows
// stays finite.
const (
	maxCount   = 1 << 50
	maxSeconds = 1e9
	maxRate    = 1e18 // bytes, or tokens, a second
	maxShare   = 1e6
	maxTimes   = 1e9
)

// check refuses what is no row of a measurement.
func (r *Row) check() error {
	if r.Suite == "" || r.Case == "" || r.Impl == "" || !(r.Seconds > 0) || !(r.Min > 0) {
		return fmt.Errorf("no row of a measurement: suite %q, case %q, impl %q, %v seconds, %v at least", r.Suite, r.Case, r.Impl, r.Seconds, r.Min)
	}
	for _, f := range [...]struct {
		name string
		got  int64
	}{
		{"batch", int64(r.Batch)},
		{"q_heads", int64(r.QHeads)},
		{"kv_heads", int64(r.KVHeads)},
		{"key_dim", int64(r.KeyDim)},
		{"value_dim", int64(r.ValueDim)},
		{"len", int64(r.Len)},
		{"keys", int64(r.Keys)},
		{"q_len", int64(r.QLen)},
		{"page_size", int64(r.PageSize)},
		{"threads", int64(r.Threads)},
		{"splits", int64(r.Splits)},
		{"rounds", int64(r.Rounds)},
		{"kv_bytes", r.KVBytes},
		{"gpus", int64(r.GPUs)},
		{"weight_bytes", r.WeightBytes},
	} {
		if f.got < 0 || f.got > maxCount {
			return fmt.Errorf("%s is %d, want 0 to %d", f.name, f.got, int64(maxCount))
		}
	}
	for _, f := range [...]struct {
		name      string
		got, most float64
	}{
		{"seconds", r.Seconds, maxSeconds},
		{"seconds_min", r.Min, maxSeconds},
		{"bytes_per_second", r.Rate, maxRate},
		{"ceiling_bytes_per_second", r.Ceiling, maxRate},
		{"ceiling_spread", r.Spread, maxShare},
		{"share", r.Share, maxShare},
		{"tokens_per_second", r.TokenRate, maxRate},
		{"multiply_adds", float64(r.MultiplyAdds), maxRate},
		{"peak_multiply_adds_per_second", r.Peak, maxRate},
		{"times", r.Times, maxTimes},
	} {
		if !(f.got >= 0 && f.got <= f.most) {
			return fmt.Errorf("%s is %v, want 0 to %v", f.name, f.got, f.most)
		}
	}
	return nil
}

// BySuite groups rows by their suite, in the order of their first rows.
func BySuite(rows []Row) [][]Row {
	var groups [][]Row
	place := make(map[string]int)
	for _, r := range rows {
		i, known := place[r.Suite]
		if !known {
			i = len(groups)
			place[r.Suite] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}
