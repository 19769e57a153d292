package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/plainjson"
)

// huggingFace is config.json. What is missing or null is zero.
type huggingFace struct {
	ModelType  string          `json:"model_type"`
	TextConfig json.RawMessage `json:"text_config"` // of a model of several modalities
	Quantised  json.RawMessage `json:"quantization_config"`

	VocabSize   int     `json:"vocab_size"`
	HiddenSize  int     `json:"hidden_size"`
	MLPSize     int     `json:"intermediate_size"`
	NumLayers   int     `json:"num_hidden_layers"`
	NumHeads    int     `json:"num_attention_heads"`
	NumKVHeads  int     `json:"num_key_value_heads"`
	HeadDim     int     `json:"head_dim"`
	MaxContext  int     `json:"max_position_embeddings"`
	NormEps     float64 `json:"rms_norm_eps"`
	Activation  string  `json:"hidden_act"`
	Activation2 string  `json:"hidden_activation"` // gemma's spelling
	Tied        *bool   `json:"tie_word_embeddings"`

	AttentionBias bool `json:"attention_bias"`

	NumExperts      int `json:"num_local_experts"`
	ExpertsPerToken int `json:"num_experts_per_tok"`

	Window     int      `json:"sliding_window"`
	UseWindow  *bool    `json:"use_sliding_window"`
	FullLayers int      `json:"max_window_layers"` // qwen2: how many come before the sliding ones
	LayerTypes []string `json:"layer_types"`
	Pattern    int      `json:"sliding_window_pattern"`

	QueryScalar  float64 `json:"query_pre_attn_scalar"`
	Softcap      float64 `json:"attn_logit_softcapping"`
	FinalSoftcap float64 `json:"final_logit_softcapping"`

	RopeParameters json.RawMessage `json:"rope_parameters"` // newer files; these replace:
	RopeScaling    *ropeConfig     `json:"rope_scaling"`
	RopeTheta      float64         `json:"rope_theta"`
	LocalTheta     float64         `json:"rope_local_base_freq"`
	Partial        float64         `json:"partial_rotary_factor"`

	BOS tokens `json:"bos_token_id"`
	EOS tokens `json:"eos_token_id"`
}

// tokens is a token id, a list of them, or null.
type tokens []int

func (t *tokens) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]int)(t))
	}
	var one *int
	if err := json.Unmarshal(data, &one); err != nil || one == nil {
		return err
	}
	*t = tokens{*one}
	return nil
}

// readHuggingFace reads a folder's config.json, and the tokens that end a text from
// generation_config.json where there is one. It wraps ErrConfig or os's errors.
func readHuggingFace(dir string) (*Config, error) {
	path := filepath.Join(dir, "config.json")
	var h huggingFace
	if err := readJSON(path, &h); err != nil {
		return nil, err
	}
	var generation struct {
		EOS tokens `json:"eos_token_id"`
	}
	if err := readJSON(filepath.Join(dir, "generation_config.json"), &generation); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	c, err := h.config()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.EOS = slices.Compact(slices.Sorted(slices.Values(append(c.EOS, generation.EOS...))))
	return c, nil
}

// config is what the file says. It wraps ErrConfig.
func (h *huggingFace) config() (*Config, error) {
	if plainjson.Given(h.TextConfig) {
		text := h.TextConfig
		*h = huggingFace{Tied: h.Tied, BOS: h.BOS, EOS: h.EOS}
		if err := plainjson.Unmarshal(text, h); err != nil {
			return nil, fmt.Errorf("%w: text_config: %w", ErrConfig, err)
		}
	}
	f := families[h.ModelType]
	if f == nil {
		return nil, fmt.Errorf("%w: model_type %.80q is not supported", ErrConfig, h.ModelType)
	}
	if plainjson.Given(h.Quantised) {
		return nil, fmt.Errorf("%w: quantised weights (quantization_config) are not supported", ErrConfig)
	}
	c := &Config{
		Family: h.ModelType, family: f,
		VocabSize: h.VocabSize, HiddenSize: h.HiddenSize, MLPSize: h.MLPSize,
		NumHeads: h.NumHeads, NumKVHeads: h.NumKVHeads, HeadDim: h.HeadDim,
		NormEps: h.NormEps, MaxContext: h.MaxContext,
		Softcap: h.Softcap, FinalSoftcap: h.FinalSoftcap, EmbedScale: 1, gated: f.gate, tied: f.tied,
		biased: h.AttentionBias,
		BOS:    -1, EOS: h.EOS,
	}
	if len(h.BOS) > 0 {
		c.BOS = h.BOS[0]
	}
	if h.Tied != nil {
		c.tied = *h.Tied
	}
	if f.experts {
		c.NumExperts, c.ExpertsPerToken = h.NumExperts, h.ExpertsPerToken
		if h.NumExperts < 1 {
			return nil, fmt.Errorf("%w: number of experts is %d, want at least 1", ErrConfig, h.NumExperts)
		}
	}
	for _, step := range [...]func(*Config) error{h.heads, h.activation, h.layers, h.ropes} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	return c, c.validate()
}

// heads fills in what follows from others.
func (h *huggingFace) heads(c *Config) error {
	if c.NumKVHeads == 0 {
		c.NumKVHeads = c.NumHeads
	}
	if c.HeadDim == 0 {
		if c.NumHeads < 1 || c.HiddenSize%c.NumHeads != 0 {
			return fmt.Errorf("%w: no head_dim, and hidden size %d is not a multiple of %d heads", ErrConfig, c.HiddenSize, c.NumHeads)
		}
		c.HeadDim = c.HiddenSize / c.NumHeads
	}
	c.derive(h.QueryScalar)
	return nil
}

// derive computes scales. queryScalar is 0 for the usual one.
func (c *Config) derive(queryScalar float64) {
	c.Scale = 1 / math.Sqrt(float64(c.HeadDim))
	if c.family.scaled && queryScalar != 0 {
		c.Scale = 1 / math.Sqrt(queryScalar)
	}
	if c.family.embedScale {
		c.EmbedScale = math.Sqrt(float64(c.HiddenSize))
	}
}

func (h *huggingFace) activation(c *Config) error {
	name := h.Activation2
	if name == "" {
		name = h.Activation
	}
	if name == "" || c.gated == network.Clamped {
		return nil
	}
	k, err := gateNamed(name)
	c.gated = k
	return err
}

// layers says which have a window.
func (h *huggingFace) layers(c *Config) error {
	if h.NumLayers < 1 || h.NumLayers > maxLayers {
		return fmt.Errorf("%w: number of layers is %d, want 1 to %d", ErrConfig, h.NumLayers, maxLayers)
	}
	if h.LayerTypes != nil && len(h.LayerTypes) != h.NumLayers {
		return fmt.Errorf("%w: layer_types has %d entries, want %d, one a layer", ErrConfig, len(h.LayerTypes), h.NumLayers)
	}
	c.Window, c.layers = h.Window, make([]kind, h.NumLayers)
	for i := range c.layers {
		windowed := c.family.layers(i)
		switch {
		case h.LayerTypes != nil:
			var err error
			if windowed, err = h.layerType(i); err != nil {
				return err
			}
		case h.UseWindow != nil:
			windowed = *h.UseWindow && i >= h.FullLayers
		case h.Pattern > 0:
			windowed = i%h.Pattern != h.Pattern-1
		case h.Window == 0:
			windowed = false // mistral's null
		}
		if windowed {
			c.layers[i] = sliding
		}
	}
	if c.NumSliding() == 0 {
		c.Window = 0
	}
	return nil
}

func (h *huggingFace) layerType(i int) (windowed bool, err error) {
	switch h.LayerTypes[i] {
	case "sliding_attention":
		return true, nil
	case "full_attention":
		return false, nil
	}
	return false, fmt.Errorf("%w: layer %d is of type %.80q, want sliding_attention or full_attention", ErrConfig, i, h.LayerTypes[i])
}

// ropes reads rotary positions: of newer files, one description or one a kind of layer; of older ones,
// a base and a scaling, with another base for sliding layers in some families.
func (h *huggingFace) ropes(c *Config) error {
	var of [numKinds]ropeConfig
	switch {
	case plainjson.Given(h.RopeParameters):
		if err := h.ropeParameters(&of); err != nil {
			return fmt.Errorf("%w: rope_parameters: %w", ErrConfig, err)
		}
	default:
		of[full] = ropeConfig{Theta: h.RopeTheta}
		if h.RopeScaling != nil {
			of[full] = *h.RopeScaling
			of[full].Theta = h.RopeTheta
		}
		of[sliding] = of[full]
		if c.family.localTheta != 0 {
			of[sliding] = ropeConfig{Theta: c.family.localTheta}
		}
		if h.LocalTheta != 0 {
			of[sliding] = ropeConfig{Theta: h.LocalTheta}
		}
	}
	c.Reach = max(c.MaxContext, of[full].reach())
	for k := range of {
		if of[k].Theta == 0 {
			of[k].Theta = 10000 // transformers' default
		}
		if of[k].Partial == 0 {
			of[k].Partial = h.Partial
		}
		if of[k].Original == 0 {
			of[k].Original = h.MaxContext
		}
		if c.HeadDim < 2 || c.HeadDim > maxHeadDim {
			return fmt.Errorf("%w: head dim is %d, want 2 to %d", ErrConfig, c.HeadDim, maxHeadDim)
		}
		var err error
		if c.ropes[k], err = of[k].build(c.HeadDim); err != nil {
			return err
		}
	}
	return nil
}

func (h *huggingFace) ropeParameters(of *[numKinds]ropeConfig) error {
	var byKind struct {
		Full    *ropeConfig `json:"full_attention"`
		Sliding *ropeConfig `json:"sliding_attention"`
	}
	if err := plainjson.Unmarshal(h.RopeParameters, &byKind); err != nil {
		return fmt.Errorf("%w: rope_parameters: %w", ErrConfig, err)
	}
	if byKind.Full != nil && byKind.Sliding != nil {
		of[full], of[sliding] = *byKind.Full, *byKind.Sliding
		return nil
	}
	if err := plainjson.Unmarshal(h.RopeParameters, &of[full]); err != nil {
		return fmt.Errorf("%w: rope_parameters: %w", ErrConfig, err)
	}
	of[sliding] = of[full]
	return nil
}
