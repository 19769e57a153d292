package sample

import (
	"errors"
	"fmt"
	"math"
)

// ErrOptions is wrapped by the error of a Chain that cannot be built.
var ErrOptions = errors.New("sample: options not valid")

// maxWindow bounds the memory of the penalty's window: 4 MiB of ids.
const maxWindow = 1 << 20

// A penalty outside these bounds is a mistake, and one near 0 would overflow.
const minPenalty, maxPenalty = 0.01, 100.0

// Options says how to choose. The zero value is greedy.
type Options struct {
	Temperature float64 // 0 is greedy; finite and not negative

	TopK int     // how many of the largest logits are kept; 0 keeps all
	TopP float64 // in [0, 1]; 0 and 1 keep all
	MinP float64 // in [0, 1], a share of the largest probability; 0 keeps all

	RepetitionPenalty float64 // in [0.01, 100]; 0 and 1 change nothing, above 1 discourages
	PenaltyWindow     int     // how many of the newest ids are penalised; 0 is all of them

	Seed uint64 // of the draws
}

func (o Options) validate() error {
	switch {
	case !(o.Temperature >= 0) || math.IsInf(o.Temperature, 0):
		return fmt.Errorf("%w: temperature %v, want a finite number ≥ 0", ErrOptions, o.Temperature)
	case o.TopK < 0:
		return fmt.Errorf("%w: top-k %d, want 0 (all) or more", ErrOptions, o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return fmt.Errorf("%w: top-p %v, want a number in [0, 1]", ErrOptions, o.TopP)
	case !(o.MinP >= 0 && o.MinP <= 1):
		return fmt.Errorf("%w: min-p %v, want a number in [0, 1]", ErrOptions, o.MinP)
	case o.RepetitionPenalty != 0 && !(o.RepetitionPenalty >= minPenalty && o.RepetitionPenalty <= maxPenalty):
		return fmt.Errorf("%w: repetition penalty %v, want %v to %v, or 0 for none", ErrOptions, o.RepetitionPenalty, minPenalty, maxPenalty)
	case o.PenaltyWindow < 0 || o.PenaltyWindow > maxWindow:
		return fmt.Errorf("%w: penalty window of %d ids, want 0 (all) to %d", ErrOptions, o.PenaltyWindow, maxWindow)
	}
	return nil
}
