package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/flashdec/flashdec/internal/network"
)

// ropeConfig is how a file describes rotary positions.
type ropeConfig struct {
	Type   string  `json:"rope_type"`
	Legacy string  `json:"type"` // the same in older files
	Theta  float64 `json:"rope_theta"`
	Factor float64 `json:"factor"`

	LowFreqFactor  float64 `json:"low_freq_factor"`
	HighFreqFactor float64 `json:"high_freq_factor"`
	Original       int     `json:"original_max_position_embeddings"`

	BetaFast        float64 `json:"beta_fast"`
	BetaSlow        float64 `json:"beta_slow"`
	AttentionFactor float64 `json:"attention_factor"`
	Truncate        *bool   `json:"truncate"`
	Partial         float64 `json:"partial_rotary_factor"`
}

// build computes the frequencies for heads of dim elements. It wraps ErrConfig.
func (c *ropeConfig) build(dim int) (network.Rope, error) {
	if !(c.Theta > 0) || math.IsInf(c.Theta, 0) {
		return network.Rope{}, fmt.Errorf("%w: rotary base is %v, want a finite number above 0", ErrConfig, c.Theta)
	}
	if c.Partial != 0 && c.Partial != 1 {
		return network.Rope{}, fmt.Errorf("%w: rotary positions on %v of a head are not supported", ErrConfig, c.Partial)
	}
	r := network.Rope{Frequencies: make([]float64, dim/2), Scale: 1}
	for i := range r.Frequencies {
		r.Frequencies[i] = math.Pow(c.Theta, -float64(2*i)/float64(dim))
	}
	t := c.kind()
	if t == "" || t == "default" {
		return r, nil
	}
	if !(c.Factor >= 1) || math.IsInf(c.Factor, 0) {
		return network.Rope{}, fmt.Errorf("%w: rotary scaling %q has factor %v, want a finite number of at least 1", ErrConfig, t, c.Factor)
	}
	switch t {
	case "linear":
		for i := range r.Frequencies {
			r.Frequencies[i] /= c.Factor
		}
		return r, nil
	case "llama3":
		err := c.llama3(&r)
		return r, err
	case "yarn":
		err := c.yarn(&r, dim)
		return r, err
	}
	return network.Rope{}, fmt.Errorf("%w: rotary scaling %q is not supported", ErrConfig, t)
}

func (c *ropeConfig) kind() string { return cmp.Or(c.Type, c.Legacy) }

// reach is how many positions the file's scaling stretches its original context to, 0 where it does not say. The factor
// of llama3 is that of low frequencies, and no promise.
func (c *ropeConfig) reach() int {
	if t := c.kind(); t != "yarn" && t != "linear" || c.Original < 1 || !(c.Factor >= 1) {
		return 0
	}
	return int(min(float64(c.Original)*c.Factor, maxContext))
}

// llama3 divides low frequencies by the factor, leaves high ones, and blends between: the border is how
// often a frequency turns in the original context.
func (c *ropeConfig) llama3(r *network.Rope) error {
	low, high := c.LowFreqFactor, c.HighFreqFactor
	if c.Original < 1 || !(low > 0 && low < high) || math.IsInf(high, 0) {
		return fmt.Errorf("%w: llama3 rotary scaling has original context %d and frequency factors %v and %v, want at least 1 and 0 < low < high",
			ErrConfig, c.Original, low, high)
	}
	for i, f := range r.Frequencies {
		turns := float64(c.Original) * f / (2 * math.Pi)
		smooth := min(max((turns-low)/(high-low), 0), 1)
		r.Frequencies[i] = (1-smooth)*f/c.Factor + smooth*f
	}
	return nil
}

// yarn does the same with a ramp over the dimensions, between those whose frequencies turn beta_slow and
// beta_fast times in the original context, and scales what is turned.
func (c *ropeConfig) yarn(r *network.Rope, dim int) error {
	fast, slow := c.BetaFast, c.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	if c.Original < 1 || !(slow > 0 && slow <= fast) || math.IsInf(fast, 0) || c.Theta == 1 {
		return fmt.Errorf("%w: yarn rotary scaling has original context %d, betas %v and %v and base %v, want at least 1, 0 < slow ≤ fast and not 1",
			ErrConfig, c.Original, slow, fast, c.Theta)
	}
	dimension := func(turns float64) float64 {
		return float64(dim) * math.Log(float64(c.Original)/(turns*2*math.Pi)) / (2 * math.Log(c.Theta))
	}
	first, last := dimension(fast), dimension(slow)
	if c.Truncate == nil || *c.Truncate {
		first, last = math.Floor(first), math.Ceil(last)
	}
	first, last = max(first, 0), min(last, float64(dim-1))
	if first == last {
		last += 0.001 // a step, as the reference has it
	}
	for i, f := range r.Frequencies {
		ramp := min(max((float64(i)-first)/(last-first), 0), 1)
		r.Frequencies[i] = ramp*f/c.Factor + (1-ramp)*f
	}
	if r.Scale = c.AttentionFactor; r.Scale == 0 {
		r.Scale = 0.1*math.Log(c.Factor) + 1
	}
	return nil
}

// angles fills the cosines and sines [HeadDim/2] of a position, times the scale.
func angles(r *network.Rope, cos, sin []float32, position int) {
	for i, f := range r.Frequencies {
		s, c := math.Sincos(float64(position) * f)
		cos[i], sin[i] = float32(c*r.Scale), float32(s*r.Scale)
	}
}

// turn rotates one head in place.
func turn(r *network.Rope, x, cos, sin []float32) {
	if r.Adjacent {
		for i, c := range cos {
			s, a, b := sin[i], x[2*i], x[2*i+1]
			x[2*i], x[2*i+1] = a*c-b*s, b*c+a*s
		}
		return
	}
	low, high := x[:len(cos)], x[len(cos):2*len(cos)]
	for i, c := range cos {
		s, a, b := sin[i], low[i], high[i]
		low[i], high[i] = a*c-b*s, b*c+a*s
	}
}
