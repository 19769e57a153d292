package bench

import (
	"fmt"
	"strings"
)

// Ratio says how many times as fast one row's keys were read as another's: in the
// same rounds where they were measured in turns, else both in one run.
type Ratio struct {
	Suite   string  `json:"suite"`
	What    string  `json:"what"`
	Device  string  `json:"device"`
	Threads int     `json:"threads"`
	Times   float64 `json:"times"`
}

// Ratios are those that rows hold: quantised types against f16, pages of 16 slots
// against contiguous tensors, many short sequences against a long one, invariant
// splits against free ones, and flashdec against its peers.
func Ratios(rows []Row) []Ratio {
	var ratios []Ratio
	for _, r := range rows {
		for _, base := range rows {
			if r.Suite != base.Suite || r.Device != base.Device || r.Threads != base.Threads || r.Impl != "flashdec" {
				continue
			}
			if what := against(&r, &base); what != "" {
				ratios = append(ratios, Ratio{r.Suite, what, r.Device, r.Threads, r.over(&base)})
			}
		}
	}
	return ratios
}

// over is the row's keys a second by those of another.
func (r *Row) over(base *Row) float64 {
	if r.Times > 0 && r.Against == base.Case {
		return r.Times
	}
	return r.keyRate() / base.keyRate()
}

// keyRate is the keys a second, counted by their bytes where all are of one type.
func (r *Row) keyRate() float64 {
	if r.Suite == "types" || r.Suite == "peers" {
		return float64(r.Batch*r.Len) / r.Seconds
	}
	return r.Rate
}

// rowShape is what rows have in common that differ in their layout alone.
type rowShape struct {
	batch, queryHeads, kvHeads, keyDim, valueDim, keys, queries int
	dtype                                                       string
}

func (r *Row) shape() rowShape {
	return rowShape{r.Batch, r.QHeads, r.KVHeads, r.KeyDim, r.ValueDim, r.Len, r.QLen, r.KVDType}
}

// against names the comparison of two rows, "" if there is none to make.
func against(r, base *Row) string {
	if r.Suite == "peers" && base.Case == r.Case && !ours[base.Impl] {
		return fmt.Sprintf("%s, against %s's %s", r.Case, base.Impl, base.KVDType)
	}
	if base.Impl != "flashdec" {
		return ""
	}
	switch r.Suite {
	case "types":
		if rest, quantised := strings.CutPrefix(r.Case, r.KVDType); quantised && smaller[r.KVDType] && base.Case == "f16"+rest {
			return r.Case + ", against f16"
		}
	case "pages":
		if r.PageSize == 16 && base.PageSize == 0 && r.shape() == base.shape() {
			order := ""
			if strings.HasSuffix(r.Case, inOrder) {
				order = inOrder
			}
			return fmt.Sprintf("%d × %d keys, pages of 16 slots%s, against contiguous", r.Batch, r.Len, order)
		}
	case "ragged":
		if r.Batch == 64 && r.PageSize == 0 && base.Batch == 1 {
			return r.Case + ", against " + base.Case
		}
	case "invariant":
		if name, invariant := strings.CutSuffix(r.Case, ", invariant"); invariant && base.Case == name+", free" {
			return name + ", invariant against free"
		}
	}
	return ""
}

var (
	ours    = map[string]bool{"flashdec": true, "unsplit": true, "direct": true, "plain": true}
	smaller = map[string]bool{"e4m3": true, "e5m2": true, "int8": true, "int4": true}
)
