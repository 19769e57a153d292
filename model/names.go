package model

import "fmt"

// role is what a tensor is for.
type role uint8

const (
	embedding role = iota
	finalNorm
	head
	attnNorm
	query
	key
	value
	attnOut
	queryNorm
	keyNorm
	sinks
	postAttnNorm
	mlpNorm
	gateProj
	upProj
	downProj
	postMLPNorm
	router
	expertGateUp // gate and up interleaved (Hugging Face)
	expertGate
	expertUp
	expertDown
	ropeFactors // what rotary frequencies are divided by (GGUF)
)

// names are a tensor's in the two formats. Those of a layer follow its prefix; a bias is named like its
// weight.
type names struct{ huggingFace, gguf string }

var usualNames = map[role]names{
	embedding:    {"embed_tokens.weight", "token_embd.weight"},
	finalNorm:    {"norm.weight", "output_norm.weight"},
	head:         {"lm_head.weight", "output.weight"},
	ropeFactors:  {"", "rope_freqs.weight"},
	attnNorm:     {"input_layernorm.weight", "attn_norm.weight"},
	query:        {"self_attn.q_proj.weight", "attn_q.weight"},
	key:          {"self_attn.k_proj.weight", "attn_k.weight"},
	value:        {"self_attn.v_proj.weight", "attn_v.weight"},
	attnOut:      {"self_attn.o_proj.weight", "attn_output.weight"},
	queryNorm:    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
	keyNorm:      {"self_attn.k_norm.weight", "attn_k_norm.weight"},
	sinks:        {"self_attn.sinks", "attn_sinks.weight"},
	mlpNorm:      {"post_attention_layernorm.weight", "ffn_norm.weight"},
	gateProj:     {"mlp.gate_proj.weight", "ffn_gate.weight"},
	upProj:       {"mlp.up_proj.weight", "ffn_up.weight"},
	downProj:     {"mlp.down_proj.weight", "ffn_down.weight"},
	postMLPNorm:  {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
	router:       {"mlp.router.weight", "ffn_gate_inp.weight"},
	expertGateUp: {"mlp.experts.gate_up_proj", ""},
	expertGate:   {"", "ffn_gate_exps.weight"},
	expertUp:     {"", "ffn_up_exps.weight"},
	expertDown:   {"mlp.experts.down_proj", "ffn_down_exps.weight"},
}

// namer spells the names of one file's tensors.
type namer struct {
	family *family
	gguf   bool
	prefix string // Hugging Face: of all but the head
}

// name is a tensor's; layer is -1 for those of no layer.
func (n *namer) name(r role, layer int) string {
	pair, own := n.family.names[r]
	if !own {
		pair = usualNames[r]
	}
	switch {
	case n.gguf && layer < 0:
		return pair.gguf
	case n.gguf:
		return fmt.Sprintf("blk.%d.%s", layer, pair.gguf)
	case r == head:
		return pair.huggingFace
	case layer < 0:
		return n.prefix + pair.huggingFace
	default:
		return fmt.Sprintf("%slayers.%d.%s", n.prefix, layer, pair.huggingFace)
	}
}
