package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
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

	// Step takes a step, or some, and returns how many seconds one took.
	Step func(ctx context.Context) (float64, error)

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
		Rounds: len(s.Seconds), Seconds: seconds, Min: slices.Min(s.Seconds), KVBytes: int64(s.KVBytes),
		Rate: rate, Ceiling: ceiling, Spread: slices.Max(s.Ceiling)/ceiling - 1, Share: shareOf(float64(s.WeightBytes+s.KVBytes), s.Seconds, s.Ceiling),
		Device: info.Device, Model: s.Model, WeightBytes: int64(s.WeightBytes), TokenRate: 1 / seconds,
	}
}

// MeasureModel takes rounds of all ways in turns, in [balanced] order, after one that does not count, each way after a bare read
// of as many bytes, whose rate rate tells: a machine that changes its pace between rounds changes all.
func MeasureModel(ctx context.Context, ways []*ModelSteps, rounds int, rate func(ctx context.Context, bytes int) (float64, error)) error {
	for round := range rounds + 1 {
		for w := range balanced(ways, round) {
			rate, err := rate(ctx, w.WeightBytes+w.KVBytes)
			if err != nil {
				return err
			}
			seconds, err := w.Step(ctx)
			if err != nil {
				return err
			}
			if round > 0 {
				w.Ceiling, w.Seconds = append(w.Ceiling, rate), append(w.Seconds, seconds)
			}
		}
	}
	return nil
}

// Reader is memory to be read, and nothing done with it: no step that reads as much takes less.
type Reader struct{ arena *Arena }

// NewReader fills that much memory, or less when ctx is done first.
func NewReader(ctx context.Context, bytes int) (*Reader, error) {
	arena, err := NewArena(bytes)
	if err != nil {
		return nil, err
	}
	if err := arena.fill(ctx, kv.F32); err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	return &Reader{arena}, nil
}

// Rate reads so many bytes, as far as there are as many, and returns how many a second.
func (r *Reader) Rate(ctx context.Context, bytes, threads int) (float64, error) {
	var pieces [][]byte
	total := 0
	for _, data := range [][]byte{r.arena.k, r.arena.v} {
		for len(data) > 0 && total < bytes {
			piece := data[:min(pieceBytes, len(data), bytes-total)]
			pieces, data, total = append(pieces, piece), data[len(piece):], total+len(piece)
		}
	}
	start := time.Now()
	readAll(ctx, pieces, threads)
	return float64(total) / time.Since(start).Seconds(), context.Cause(ctx)
}

// Close gives the memory back.
func (r *Reader) Close() error { return r.arena.Close() }
