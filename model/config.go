package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/network"
)

var (
	// ErrConfig: a model's description is malformed, makes no sense, or asks for what is not supported.
	ErrConfig = errors.New("model not usable")
	// ErrWeight: a tensor is missing, of another shape or type than wanted, or not used.
	ErrWeight = errors.New("weight not usable")
	// ErrContext: a sequence would pass the most tokens that it may have.
	ErrContext = errors.New("context is full")
	// ErrInput: a call's tokens or buffers do not fit the model.
	ErrInput = errors.New("input not usable")
)

// kind is what layers may differ in.
type kind = network.Kind

const (
	full, sliding = network.Full, network.Sliding
	numKinds      = network.NumKinds
)

// Config is what a model is, whatever file it came from.
type Config struct {
	Family     string // as config.json spells it: "llama", "gemma3_text", …
	VocabSize  int
	HiddenSize int
	MLPSize    int // of one expert, where there are experts
	NumHeads   int
	NumKVHeads int
	HeadDim    int
	NormEps    float64
	MaxContext int // positions that the model was made for
	Reach      int // positions that its rotary scaling stretches to, MaxContext where that says no more

	NumExperts      int // 0 for none
	ExpertsPerToken int

	Window       int     // of sliding layers: how many of the newest keys a query sees
	Scale        float64 // of q·k
	Softcap      float64 // of scores, 0 for none
	FinalSoftcap float64 // of logits, 0 for none
	EmbedScale   float64 // of embeddings

	BOS int   // token that a text begins with, -1 for none
	EOS []int // tokens that end a text

	family *family
	layers []kind
	gated  network.Gate
	ropes  [numKinds]network.Rope
	tied   bool // the head is the embedding
	biased bool // q, k, v and the attention's output must have biases; elsewhere those are used that are
}

// NumLayers is the number of layers.
func (c *Config) NumLayers() int { return len(c.layers) }

// NumSliding is how many of them have a sliding window.
func (c *Config) NumSliding() int {
	n := 0
	for _, k := range c.layers {
		if k == sliding {
			n++
		}
	}
	return n
}

// Shape is that of every layer's attention.
func (c *Config) Shape() attn.Shape {
	return attn.Shape{NumHeads: c.NumHeads, NumKVHeads: c.NumKVHeads, KeyDim: c.HeadDim, ValueDim: c.HeadDim}
}

// window is how many keys a query sees in layers of a kind, 0 for all.
func (c *Config) window(k kind) int {
	if k == sliding {
		return c.Window
	}
	return 0
}

// network is what a device computes of the model, but for the weights.
func (c *Config) network() *network.Network {
	n := &network.Network{
		VocabSize: c.VocabSize, HiddenSize: c.HiddenSize, MLPSize: c.MLPSize, ExpertsPerToken: c.ExpertsPerToken,
		NormEps: c.NormEps, EmbedScale: c.EmbedScale, FinalSoftcap: c.FinalSoftcap, Gate: c.gated,
		Shape: c.Shape(), Ropes: c.ropes,
	}
	for k := range numKinds {
		n.Attention[k] = attn.Options{Scale: c.Scale, Softcap: c.Softcap, Causal: true, Window: c.window(k)}
	}
	return n
}

// Bounds of a configuration. Within them no size overflows; what a file cannot back is found when its
// tensors are looked up.
const (
	maxVocab   = 1 << 26
	maxSize    = 1 << 20
	maxLayers  = 1 << 14
	maxHeads   = 1 << 14
	maxHeadDim = 1 << 12
	maxExperts = 1 << 14
	maxContext = 1 << 30
)

// validate reports the first thing that makes no sense. It wraps ErrConfig.
func (c *Config) validate() error {
	for _, f := range [...]struct {
		name      string
		got       int
		low, high int
	}{
		{"vocabulary size", c.VocabSize, 1, maxVocab},
		{"hidden size", c.HiddenSize, 1, maxSize},
		{"MLP size", c.MLPSize, 1, maxSize},
		{"number of layers", len(c.layers), 1, maxLayers},
		{"number of heads", c.NumHeads, 1, maxHeads},
		{"number of KV heads", c.NumKVHeads, 1, c.NumHeads},
		{"head dim", c.HeadDim, 2, maxHeadDim},
		{"context", c.MaxContext, 1, maxContext},
		{"sliding window", c.Window, 0, maxContext},
		{"number of experts", c.NumExperts, 0, maxExperts},
		{"experts a token", c.ExpertsPerToken, 0, c.NumExperts},
	} {
		if f.got < f.low || f.got > f.high {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrConfig, f.name, f.got, f.low, f.high)
		}
	}
	if c.NumHeads%c.NumKVHeads != 0 {
		return fmt.Errorf("%w: %d heads are not a multiple of %d KV heads", ErrConfig, c.NumHeads, c.NumKVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("%w: head dim %d is odd, and rotary positions turn pairs", ErrConfig, c.HeadDim)
	}
	if c.NumSliding() > 0 && c.Window == 0 {
		return fmt.Errorf("%w: layers with a sliding window, but no window", ErrConfig)
	}
	if c.NumExperts > 0 && c.ExpertsPerToken == 0 {
		return fmt.Errorf("%w: %d experts, but none a token", ErrConfig, c.NumExperts)
	}
	return c.validateNumbers()
}

func (c *Config) validateNumbers() error {
	for _, f := range [...]struct {
		name      string
		got       float64
		low, high float64
	}{
		{"norm epsilon", c.NormEps, 0, 1},
		{"attention scale", c.Scale, 1e-9, 1e9},
		{"attention softcap", c.Softcap, 0, 1e9},
		{"final softcap", c.FinalSoftcap, 0, 1e9},
		{"embedding scale", c.EmbedScale, 1e-9, 1e9},
	} {
		if !(f.got >= f.low && f.got <= f.high) { // NaN, too
			return fmt.Errorf("%w: %s is %v, want %v to %v", ErrConfig, f.name, f.got, f.low, f.high)
		}
	}
	for k, r := range c.ropes {
		for i, f := range r.Frequencies {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("%w: rotary frequency %d of %v layers is %v", ErrConfig, i, kind(k), f)
			}
		}
		if math.IsNaN(r.Scale) || math.IsInf(r.Scale, 0) {
			return fmt.Errorf("%w: rotary scale of %v layers is %v", ErrConfig, kind(k), r.Scale)
		}
	}
	return nil
}
