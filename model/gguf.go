package model

import (
	"cmp"
	"fmt"
	"math"
	"reflect"

	"github.com/flashdec/flashdec/gguf"
)

// ggufConfig reads a model's description from a file's metadata. The first error stays.
type ggufConfig struct {
	file *gguf.File
	arch string
	err  error
}

// number finds a number of any type, or one a layer that are all the same; missing ones are the default,
// of which NaN is an error.
func (g *ggufConfig) number(key string, missing float64) float64 {
	key = g.arch + "." + key
	v, ok := g.file.Metadata[key]
	if !ok {
		if math.IsNaN(missing) && g.err == nil {
			g.err = fmt.Errorf("%w: metadata %q is missing", ErrConfig, key)
		}
		return missing
	}
	x, ok := numberOf(reflect.ValueOf(v))
	if !ok && g.err == nil {
		g.err = fmt.Errorf("%w: metadata %q is a %T, want a number, or one a layer and all the same", ErrConfig, key, v)
	}
	return x
}

func numberOf(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	case v.Kind() == reflect.Slice && v.Len() > 0:
		first, ok := numberOf(v.Index(0))
		for i := range v.Len() {
			if x, _ := numberOf(v.Index(i)); x != first {
				return 0, false
			}
		}
		return first, ok
	}
	return 0, false
}

// count is a number that is a whole one.
func (g *ggufConfig) count(key string, missing float64) int {
	x := g.number(key, missing)
	if g.err != nil {
		return 0
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<40 {
		g.err = fmt.Errorf("%w: metadata %q is %v, want a count", ErrConfig, g.arch+"."+key, x)
		return 0
	}
	return int(x)
}

// token is a token of the tokenizer's metadata, −1 for none.
func (g *ggufConfig) token(key string) int {
	v, ok := g.file.Metadata["tokenizer.ggml."+key].(uint32)
	if !ok {
		return -1
	}
	return int(v)
}

// required stands for what a file must say.
var required = math.NaN()

// readGGUF reads the description. Rotary factors, a tensor, come later. It wraps ErrConfig.
func readGGUF(f *gguf.File) (*Config, error) {
	arch, _ := f.Metadata["general.architecture"].(string)
	name, fam := familyOfArch(arch)
	if fam == nil {
		return nil, fmt.Errorf("%w: architecture %.80q is not supported", ErrConfig, arch)
	}
	g := &ggufConfig{file: f, arch: arch}
	c := &Config{
		Family: name, family: fam,
		HiddenSize:   g.count("embedding_length", required),
		NumHeads:     g.count("attention.head_count", required),
		NormEps:      g.number("attention.layer_norm_rms_epsilon", required),
		MaxContext:   g.count("context_length", required),
		Softcap:      g.number("attn_logit_softcapping", 0),
		FinalSoftcap: g.number("final_logit_softcapping", 0),
		EmbedScale:   1,
		gated:        fam.gate,
		BOS:          g.token("bos_token_id"),
	}
	c.NumKVHeads = g.count("attention.head_count_kv", float64(c.NumHeads))
	if fam.experts {
		c.NumExperts, c.ExpertsPerToken = g.count("expert_count", required), g.count("expert_used_count", required)
		c.MLPSize = g.count("expert_feed_forward_length", required)
	} else {
		c.MLPSize = g.count("feed_forward_length", required)
	}
	if t, ok := f.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 {
		c.VocabSize = t.Shape[0]
	}
	_, separate := f.Tensor("output.weight")
	c.tied = !separate
	if eos := g.token("eos_token_id"); eos >= 0 {
		c.EOS = append(c.EOS, eos)
	}
	if eot := g.token("eot_token_id"); eot >= 0 {
		c.EOS = append(c.EOS, eot)
	}
	for _, step := range [...]func(*Config){g.heads, g.layers, g.ropes} {
		if g.err == nil {
			step(c)
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	return c, c.validate()
}

func (g *ggufConfig) heads(c *Config) {
	if c.NumHeads < 1 || c.NumHeads > maxHeads {
		g.err = fmt.Errorf("%w: number of heads is %d, want 1 to %d", ErrConfig, c.NumHeads, maxHeads)
		return
	}
	c.HeadDim = g.count("attention.key_length", float64(c.HiddenSize/c.NumHeads))
	if n := g.count("attention.value_length", float64(c.HeadDim)); n != c.HeadDim && g.err == nil {
		g.err = fmt.Errorf("%w: keys of %d elements but values of %d are not supported", ErrConfig, c.HeadDim, n)
	}
	scalar := 0.0
	if n := g.count("block_count", required); c.Family == "gemma2" && n == 46 || c.Family == "gemma3_text" && n == 62 {
		// The 27B models are the ones whose query scalar is not their head dim, and the file has no key for it.
		scalar = float64(c.HiddenSize) / float64(c.NumHeads)
	}
	c.derive(scalar)
}

func (g *ggufConfig) layers(c *Config) {
	n := g.count("block_count", required)
	if g.err != nil || n < 1 || n > maxLayers {
		g.fail("number of layers is %d, want 1 to %d", n, maxLayers)
		return
	}
	c.Window, c.layers = g.count("attention.sliding_window", 0), make([]kind, n)
	for i := range c.layers {
		if c.family.layers(i) && c.Window > 0 {
			c.layers[i] = sliding
		}
	}
	if c.NumSliding() == 0 {
		c.Window = 0
	}
}

// text is a string of the architecture's metadata.
func (g *ggufConfig) text(key, otherwise string) string {
	x, ok := g.file.Metadata[g.arch+"."+key]
	if !ok {
		return otherwise
	}
	s, ok := x.(string)
	if !ok {
		g.fail("metadata %q is %T, want a string", g.arch+"."+key, x)
	}
	return s
}

func (g *ggufConfig) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
}

func (g *ggufConfig) ropes(c *Config) {
	if c.HeadDim < 2 || c.HeadDim > maxHeadDim {
		g.fail("head dim is %d, want 2 to %d", c.HeadDim, maxHeadDim)
		return
	}
	if n := g.count("rope.dimension_count", float64(c.HeadDim)); n != c.HeadDim {
		g.fail("rotary positions on %d of %d elements of a head are not supported", n, c.HeadDim)
	}
	untruncated := false
	of := ropeConfig{
		Theta:    g.number("rope.freq_base", 10000),
		Factor:   g.number("rope.scaling.factor", g.number("rope.scale_linear", 0)),
		Original: g.count("rope.scaling.original_context_length", 0),
		Truncate: &untruncated,
	}
	of.Type = g.text("rope.scaling.type", "linear") // so files say it that are older than the key
	if of.Type == "none" || of.Factor == 0 {
		of.Type = ""
	}
	c.Reach = max(c.MaxContext, of.reach())
	of.Original = cmp.Or(of.Original, c.MaxContext)
	local := of
	if c.family.localTheta != 0 {
		local = ropeConfig{Theta: g.number("rope.freq_base_swa", c.family.localTheta)}
	}
	for k, r := range [numKinds]ropeConfig{full: of, sliding: local} {
		built, err := r.build(c.HeadDim)
		if err != nil && g.err == nil {
			g.err = err
		}
		built.Adjacent = c.family.pairs
		c.ropes[k] = built
	}
}
