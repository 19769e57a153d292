package token

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pretokenizer is what GGUF's tokenizer.ggml.pre names.
type pretokenizer struct {
	stages []string // splitting expressions, one after another; "\p{N}" and those of scan.go are written by hand
	whole  bool     // a piece that is a token is taken as it is, whatever its merges
	bos    bool     // a text begins with BOS, unless the file says otherwise
}

const (
	digitExpression  = `\p{N}`
	digitsExpression = `\p{N}{1,3}`

	deepseekCJK   = `[一-龥぀-ゟ゠-ヿ]+`
	deepseekWords = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	punctuation = "[\\p{P}\\$\\+<=>\\^~\\|]+"
)

var (
	gpt2Pre     = pretokenizer{stages: []string{gpt2Expression}}
	smollmPre   = pretokenizer{stages: []string{digitExpression, gpt2Expression}}
	llama3Pre   = pretokenizer{stages: []string{llama3Expression}, whole: true, bos: true}
	glmPre      = pretokenizer{stages: []string{llama3Expression}}
	qwen2Pre    = pretokenizer{stages: []string{qwen2Expression}}
	qwen35Pre   = pretokenizer{stages: []string{qwen35Expression}}
	gpt4oPre    = pretokenizer{stages: []string{gpt4oExpression}}
	tekkenPre   = pretokenizer{stages: []string{tekkenExpression}, whole: true, bos: true}
	deepseekPre = pretokenizer{stages: []string{digitsExpression, deepseekCJK, deepseekWords}}
	defaultPre  = pretokenizer{stages: []string{punctuation, gpt2Expression, `\p{N}+`, `[0-9][0-9][0-9]`}}
)

// pretokenizers are those that are known, by their name in a GGUF file.
var pretokenizers = map[string]pretokenizer{
	"default": defaultPre,

	"gpt-2": gpt2Pre, "phi-2": gpt2Pre, "mpt": gpt2Pre, "olmo": gpt2Pre, "jais": gpt2Pre, "mellum": gpt2Pre,
	"modern-bert": gpt2Pre, "gigachat": gpt2Pre, "a.x-4.0": gpt2Pre, "granite-docling": gpt2Pre,

	"smollm": smollmPre, "starcoder": smollmPre, "refact": smollmPre, "command-r": smollmPre,
	"codeshell": smollmPre, "exaone": smollmPre, "minerva-7b": smollmPre,

	"llama3": llama3Pre, "llama-v3": llama3Pre, "llama-bpe": llama3Pre, "falcon3": llama3Pre,
	"falcon-h1": llama3Pre, "pixtral": llama3Pre, "midm-2.0": llama3Pre, "lfm2": llama3Pre,
	"smaug-bpe": glmPre, "dbrx": glmPre, "chatglm-bpe": glmPre, "glm4": glmPre,

	"qwen2": qwen2Pre, "stablelm2": qwen2Pre, "deepseek-r1-qwen": qwen2Pre, "megrez": qwen2Pre,
	"hunyuan": qwen2Pre, "solar-open": qwen2Pre, "grok-2": qwen2Pre, "qwen35": qwen35Pre,

	"gpt-4o": gpt4oPre, "llama4": gpt4oPre, "kanana2": gpt4oPre, "minimax-m2": gpt4oPre,
	"tekken": tekkenPre, "deepseek-v3": deepseekPre,
}

// findPretokenizer returns the one of that name; a file that has none is taken
// for "default".
func findPretokenizer(name string) (pretokenizer, error) {
	if name == "" {
		name = "default"
	}
	p, ok := pretokenizers[name]
	if !ok {
		known := slices.Sorted(maps.Keys(pretokenizers))
		return p, fmt.Errorf("%w: pre-tokenizer %q; known are %s", ErrUnsupported, name, strings.Join(known, ", "))
	}
	return p, nil
}

// splitters returns the stages of the expressions.
func splitters(expressions []string) ([]stage, error) {
	var out []stage
	for _, source := range expressions {
		s, err := splitter(source, false, isolated)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// splitter returns the hand-written form of an expression where there is one.
// The scanners' pieces are the expression's matches, and leave nothing between
// them, so that what becomes of the rest does not matter.
func splitter(source string, invert bool, then behavior) (stage, error) {
	covers := then == isolated && !invert || then == removed && invert
	if scan, ok := scanners[source]; ok && covers {
		return scan, nil
	}
	if source == digitExpression && covers && then == isolated {
		return digits{individual: true}, nil
	}
	e, err := compile(source)
	return cutter{find: e, invert: invert, then: then}, err
}
