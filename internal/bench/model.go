package bench

import (
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/backend"
)

// ModelSuite is the suite of rows that say how fast a model decodes: its step reads weights
// beside keys and values, and yields a token.
const ModelSuite = "model"

// ModelSteps are the decode steps of one sequence that were measured at one length.
type ModelSteps struct {
	Model   string // a file's or a shape's name
	Context int    // tokens that a step sees, its own counted
	Impl    string // "flashdec" where the plan cuts, "unsplit" where nothing is cut, or a peer's name
	Splits  int    // most splits of a sequence and head; 0: not known

	WeightBytes, KVBytes int // that a step reads
	KVDType              string
	QHeads, KVHeads, Dim int

	Seconds []float64 // of a step, in each round
	Ceiling []float64 // bytes a second of a bare read of as many bytes just before
}

// Row is what the steps have to report. Commit and command are the caller's to add.
func (s *ModelSteps) Row(threads int, info backend.Info) Row {
	seconds, ceiling := Median(s.Seconds), Median(s.Ceiling)
	rate := float64(s.WeightBytes+s.KVBytes) / seconds
	return Row{
		Suite: ModelSuite, Case: fmt.Sprintf("%s, %d tokens", s.Model, s.Context), Backend: info.Name, Kernel: info.Kernel, Impl: s.Impl,
		Batch: 1, QHeads: s.QHeads, KVHeads: s.KVHeads, KeyDim: s.Dim, ValueDim: s.Dim, Len: s.Context, Keys: s.Context, QLen: 1,
		KVDType: s.KVDType, Threads: threads, Splits: s.Splits,
		Rounds: len(s.Seconds), Seconds: seconds, Min: slices.Min(s.Seconds), KVBytes: s.KVBytes,
		Rate: rate, Ceiling: ceiling, Spread: slices.Max(s.Ceiling)/ceiling - 1, Share: rate / ceiling,
		Device: info.Device, Model: s.Model, WeightBytes: s.WeightBytes, TokenRate: 1 / seconds,
	}
}
