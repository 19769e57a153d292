package model

import "github.com/flashdec/flashdec/internal/network"

// family is what sets models of one name apart: choices among the shared parts.
type family struct {
	arch string // its name in GGUF, if another

	gate       network.Gate // the MLP's, where the file does not say
	layers     pattern      // which layers have a sliding window, where the file does not say
	fromOne    bool         // norm weights are stored less one (not in GGUF)
	postNorms  bool         // norms after attention and MLP, before they are added to x
	queryNorm  bool         // norms of each head's query and key
	embedScale bool         // embeddings times √HiddenSize
	scaled     bool         // scores are scaled by 1/√query_pre_attn_scalar
	qkvBias    bool         // biases of q, k and v must be there; elsewhere those are used that are
	experts    bool         // the MLP is a mixture of experts
	sinks      bool         // heads have sinks
	tied       bool         // the head is the embedding, where the file does not say
	localTheta float64      // rotary base of sliding layers, where they have their own

	pairs bool           // GGUF only: the rotated pairs are adjacent elements
	names map[role]names // where they differ from the usual
}

// pattern says whether a layer has a sliding window.
type pattern func(layer int) bool

func never(int) bool       { return false }
func always(int) bool      { return true }
func even(layer int) bool  { return layer%2 == 0 }
func sixth(layer int) bool { return layer%6 != 5 } // all but every sixth

// gemmaNames: the norm before the MLP has another name, because the usual one is after attention.
var gemmaNames = map[role]names{
	mlpNorm:      {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
	postAttnNorm: {"post_attention_layernorm.weight", "post_attention_norm.weight"},
}

// families by their model_type in config.json.
var families = map[string]*family{
	"llama":   {gate: network.SiLU, layers: never, pairs: true},
	"mistral": {gate: network.SiLU, layers: always},
	"qwen2":   {gate: network.SiLU, layers: never, qkvBias: true},
	"qwen3":   {gate: network.SiLU, layers: never, queryNorm: true},
	"gemma2": {
		gate: network.GELU, layers: even, fromOne: true, postNorms: true, embedScale: true, scaled: true, tied: true, names: gemmaNames,
	},
	"gemma3_text": {
		arch: "gemma3", gate: network.GELU, layers: sixth, fromOne: true, postNorms: true, queryNorm: true, embedScale: true, scaled: true,
		tied: true, localTheta: 10000, names: gemmaNames,
	},
	"gpt_oss": {
		arch: "gpt-oss", gate: network.Clamped, layers: even, qkvBias: true, experts: true, sinks: true,
		names: map[role]names{mlpNorm: {"post_attention_layernorm.weight", "post_attention_norm.weight"}},
	},
}

// familyOfArch finds a family by its name in GGUF.
func familyOfArch(arch string) (name string, f *family) {
	for name, f := range families {
		if arch == f.arch || f.arch == "" && arch == name {
			return name, f
		}
	}
	return "", nil
}
