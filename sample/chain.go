package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// ErrLogits is wrapped by the error of logits from which nothing can be
// chosen: NaN, +Inf, a wrong number of them, or −Inf alone.
var ErrLogits = errors.New("sample: logits not usable")

// maxVocab is what an id of 32 bits can count.
const maxVocab = math.MaxInt32

// pcgStream is the second word of the generator's state: any constant, so that
// a seed alone names a sequence of draws.
const pcgStream = 0x9e3779b97f4a7c15

// Chain chooses one id a call. It remembers the ids it chose, for the
// repetition penalty. It is not safe for use by several goroutines at once.
type Chain struct {
	opts    Options
	history history
	rng     *rand.Rand

	candidates []candidate // [vocabSize], scratch of one call
}

// New returns a Chain for logits of vocabSize tokens. Its error wraps
// [ErrOptions].
func New(vocabSize int, o Options) (*Chain, error) {
	if vocabSize < 1 || vocabSize > maxVocab {
		return nil, fmt.Errorf("%w: a vocabulary of %d tokens, want 1 to %d", ErrOptions, vocabSize, maxVocab)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.TopK == 0 || o.TopK > vocabSize {
		o.TopK = vocabSize
	}
	if o.TopP == 0 {
		o.TopP = 1
	}
	if o.RepetitionPenalty == 0 {
		o.RepetitionPenalty = 1
	}
	return &Chain{
		opts:       o,
		history:    newHistory(vocabSize, o.PenaltyWindow),
		rng:        rand.New(rand.NewPCG(o.Seed, pcgStream)),
		candidates: make([]candidate, vocabSize),
	}, nil
}

// Observe adds ids, a prompt's for instance, to those that the repetition
// penalty looks at. Ids outside the vocabulary are passed over.
func (c *Chain) Observe(ids ...int) {
	for _, id := range ids {
		c.history.add(id)
	}
}

// Next chooses an id from logits [vocabSize], which it does not change, and
// observes it. It allocates nothing. Its error wraps [ErrLogits], or [ErrOptions]
// where no chain was made.
func (c *Chain) Next(logits []float32) (int, error) {
	if c == nil {
		return 0, fmt.Errorf("%w: the chain was never made", ErrOptions)
	}
	best, err := c.load(logits)
	if err != nil {
		return 0, err
	}
	id := best.id
	if c.opts.Temperature > 0 {
		id = c.draw(best)
	}
	c.history.add(int(id))
	return int(id), nil
}

// load fills the candidates with the penalised logits and returns the best.
func (c *Chain) load(logits []float32) (candidate, error) {
	if len(logits) != len(c.candidates) {
		return candidate{}, fmt.Errorf("%w: %d of them, want %d", ErrLogits, len(logits), len(c.candidates))
	}
	best := candidate{id: -1, logit: math.Inf(-1)}
	for i, logit := range logits {
		x := float64(logit)
		if math.IsNaN(x) || math.IsInf(x, 1) {
			return candidate{}, fmt.Errorf("%w: that of id %d is %v", ErrLogits, i, x)
		}
		if c.history.seen(i) {
			x = penalise(x, c.opts.RepetitionPenalty)
		}
		c.candidates[i] = candidate{id: int32(i), logit: x}
		if x > best.logit {
			best = c.candidates[i]
		}
	}
	if best.id < 0 {
		return candidate{}, fmt.Errorf("%w: all %d are -Inf", ErrLogits, len(logits))
	}
	return best, nil
}

func penalise(x, penalty float64) float64 {
	if x > 0 {
		return x / penalty
	}
	return x * penalty
}

// draw applies temperature, top-k, top-p and min-p, and draws one id.
func (c *Chain) draw(best candidate) int32 {
	for i := range c.candidates {
		x := &c.candidates[i]
		x.weight = math.Exp((x.logit - best.logit) / c.opts.Temperature)
	}
	kept := c.candidates
	if c.opts.TopK < len(kept) || c.opts.TopP < 1 {
		kept = truncate(kept, c.opts.TopK, c.opts.TopP)
	}
	// The largest weight is exp(0) = 1, so min-p is a bound on the weights.
	var total float64
	for _, x := range kept {
		if x.weight >= c.opts.MinP {
			total += x.weight
		}
	}
	u := c.rng.Float64() * total
	last := best.id // where rounding leaves u past the last weight
	for _, x := range kept {
		if x.weight < c.opts.MinP || x.weight == 0 {
			continue
		}
		if u < x.weight {
			return x.id
		}
		u -= x.weight
		last = x.id
	}
	return last
}
