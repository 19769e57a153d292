package model_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
	"github.com/flashdec/flashdec/tensorfile"
)

// ggufWriter puts a file together: metadata and float32 tensors.
type ggufWriter struct {
	pairs   []byte
	numKeys uint64
	tensors map[string]ggufTensor
}

type ggufTensor struct {
	shape []int
	data  []float32
}

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// set adds a pair; v is a uint32, float32 or string.
func (w *ggufWriter) set(key string, v any) {
	w.numKeys++
	w.pairs = text(w.pairs, key)
	switch v := v.(type) {
	case uint32:
		w.pairs = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(w.pairs, 4), v)
	case float32:
		w.pairs = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(w.pairs, 6), math.Float32bits(v))
	case string:
		w.pairs = text(binary.LittleEndian.AppendUint32(w.pairs, 8), v)
	default:
		panic(fmt.Sprintf("%T", v))
	}
}

func (w *ggufWriter) bytes() []byte {
	const alignment = 32
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.tensors)))
	b = append(binary.LittleEndian.AppendUint64(b, w.numKeys), w.pairs...)
	offset := 0
	names := slices.Sorted(maps.Keys(w.tensors))
	for _, name := range names {
		x := w.tensors[name]
		b = binary.LittleEndian.AppendUint32(text(b, name), uint32(len(x.shape)))
		for i := range x.shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(x.shape[len(x.shape)-1-i]))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(gguf.F32))
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		offset += (4*len(x.data) + alignment - 1) / alignment * alignment
	}
	for _, name := range names {
		b = append(b, make([]byte, -len(b)&(alignment-1))...)
		for _, v := range w.tensors[name].data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return append(b, make([]byte, -len(b)&(alignment-1))...)
}

// ggufNames are what the parts of Hugging Face's names are called in GGUF, longest first.
var ggufNames = strings.NewReplacer(
	"model.embed_tokens.", "token_embd.", "model.norm.", "output_norm.", "lm_head.", "output.", "model.layers.", "blk.",
	"input_layernorm", "attn_norm", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v",
	"self_attn.o_proj", "attn_output", "self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
	"self_attn.sinks", "attn_sinks.weight", "pre_feedforward_layernorm", "ffn_norm", "post_feedforward_layernorm", "post_ffw_norm",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down", "mlp.router", "ffn_gate_inp",
	"mlp.experts.down_proj_bias", "ffn_down_exps.bias", "mlp.experts.down_proj", "ffn_down_exps.weight",
)

// toGGUF writes what converters to GGUF make of a golden model: heads of llama in pairs of adjacent elements,
// norms of gemma with the 1 added, experts' gate and up apart and stored by outputs.
func toGGUF(t testing.TB, g *modeltest.Golden, arch string) *ggufWriter {
	t.Helper()
	m := openModel(t, g.Dir)
	c := m.Config()
	f, err := tensorfile.Open(filepath.Join(g.Dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &ggufWriter{tensors: map[string]ggufTensor{}}
	for _, x := range f.Tensors {
		data, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		w.convert(arch, c, x.Name, x.Shape, data)
	}
	w.set("general.architecture", arch)
	for key, v := range map[string]any{
		"block_count": uint32(c.NumLayers()), "context_length": uint32(c.MaxContext), "embedding_length": uint32(c.HiddenSize),
		"feed_forward_length": uint32(c.MLPSize), "attention.head_count": uint32(c.NumHeads), "attention.head_count_kv": uint32(c.NumKVHeads),
		"attention.key_length": uint32(c.HeadDim), "attention.layer_norm_rms_epsilon": float32(c.NormEps), "attention.sliding_window": uint32(c.Window),
		"attn_logit_softcapping": float32(c.Softcap), "final_logit_softcapping": float32(c.FinalSoftcap),
	} {
		w.set(arch+"."+key, v)
	}
	return w
}

func (w *ggufWriter) convert(arch string, c *model.Config, name string, shape []int, data []float32) {
	layer := ggufNames.Replace(name)
	switch {
	case strings.HasPrefix(arch, "gemma"):
		layer = strings.ReplaceAll(layer, "post_attention_layernorm", "post_attention_norm")
		if strings.HasSuffix(name, "norm.weight") {
			for i := range data {
				data[i]++
			}
		}
	case arch == "gpt-oss":
		layer = strings.ReplaceAll(layer, "post_attention_layernorm", "post_attention_norm")
	default:
		layer = strings.ReplaceAll(layer, "post_attention_layernorm", "ffn_norm")
	}
	switch prefix, isGateUp := strings.CutSuffix(layer, "mlp.experts.gate_up_proj"); {
	case arch == "llama" && (strings.HasSuffix(layer, "attn_q.weight") || strings.HasSuffix(layer, "attn_k.weight")):
		data = adjacentPairs(data, c.HeadDim, shape[1])
	case isGateUp:
		gate, up := everySecond(transposed(shape, data), shape[1])
		half := []int{shape[0], shape[2] / 2, shape[1]}
		w.tensors[prefix+"ffn_gate_exps.weight"], w.tensors[prefix+"ffn_up_exps.weight"] = ggufTensor{half, gate}, ggufTensor{half, up}
		return
	case strings.HasSuffix(layer, "mlp.experts.gate_up_proj_bias"):
		prefix := strings.TrimSuffix(layer, "mlp.experts.gate_up_proj_bias")
		gate, up := everySecond(data, 1)
		half := []int{shape[0], shape[1] / 2}
		w.tensors[prefix+"ffn_gate_exps.bias"], w.tensors[prefix+"ffn_up_exps.bias"] = ggufTensor{half, gate}, ggufTensor{half, up}
		return
	case strings.HasSuffix(layer, "ffn_down_exps.weight"):
		data, shape = transposed(shape, data), []int{shape[0], shape[2], shape[1]}
	}
	w.tensors[layer] = ggufTensor{shape, data}
}

// adjacentPairs reorders the rows of each head: row i of its first half and of its second become rows 2i and 2i+1.
func adjacentPairs(x []float32, dim, cols int) []float32 {
	out := make([]float32, 0, len(x))
	for head := 0; head < len(x); head += dim * cols {
		for i := range dim / 2 {
			for _, r := range []int{i, i + dim/2} {
				out = append(out, x[head+r*cols:][:cols]...)
			}
		}
	}
	return out
}

// transposed swaps the last two of three dimensions.
func transposed(shape []int, x []float32) []float32 {
	rows, cols := shape[1], shape[2]
	out := make([]float32, len(x))
	for i := range x {
		e, r, c := i/(rows*cols), i/cols%rows, i%cols
		out[(e*cols+c)*rows+r] = x[i]
	}
	return out
}

// everySecond parts even rows from odd ones.
func everySecond(x []float32, cols int) (even, odd []float32) {
	for i := 0; i < len(x); i += 2 * cols {
		even, odd = append(even, x[i:i+cols]...), append(odd, x[i+cols:i+2*cols]...)
	}
	return even, odd
}

// ggufCases are what the formats differ in, by modeltest.Golden model: what GGUF cannot say is edited out of the folder
// that is compared with.
var ggufCases = map[string]struct {
	arch  string
	pairs map[string]any
	edits map[string]any
}{
	"llama3_rope": {arch: "llama", edits: map[string]any{"rope_parameters": map[string]any{"rope_theta": 500000, "rope_type": "linear", "factor": 4}}, pairs: map[string]any{
		"rope.freq_base": float32(500000), "rope.scaling.type": "linear", "rope.scaling.factor": float32(4), "rope.dimension_count": uint32(16),
	}},
	"mistral": {arch: "llama", edits: map[string]any{"sliding_window": nil}},
	"qwen2":   {arch: "qwen2"},
	"qwen3":   {arch: "qwen3"},
	"gemma2":  {arch: "gemma2", edits: map[string]any{"query_pre_attn_scalar": 32}},
	"gemma3":  {arch: "gemma3", pairs: map[string]any{"rope.freq_base": float32(1e6)}},
	"gpt_oss": {arch: "gpt-oss", pairs: map[string]any{
		"rope.freq_base": float32(150000), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(32),
		"rope.scaling.original_context_length": uint32(4096),
		"expert_count":                         uint32(4), "expert_used_count": uint32(2), "expert_feed_forward_length": uint32(64),
	}},
}

// TestGGUFEqualsFolder: a model's logits are the same from a GGUF file.
func TestGGUFEqualsFolder(t *testing.T) {
	for _, g := range goldens(t) {
		c, known := ggufCases[g.Name()]
		if !known {
			continue // of another folder
		}
		t.Run(g.Name(), func(t *testing.T) {
			w := toGGUF(t, &g, c.arch)
			for key, v := range c.pairs {
				w.set(c.arch+"."+key, v)
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			write(t, path, w.bytes())
			compareModels(t, path, folder(t, g.Dir, c.edits), g.IDs)
		})
	}
}

func compareModels(t *testing.T, path, dir string, ids []int) {
	t.Helper()
	if got, want := openModel(t, path).Config(), openModel(t, dir).Config(); got.MaxContext != want.MaxContext || got.Reach != want.Reach {
		t.Errorf("GGUF: made for %d positions, reaching %d, want %d and %d", got.MaxContext, got.Reach, want.MaxContext, want.Reach)
	}
	logits := func(path string) []float32 {
		r := newRunner(t, openModel(t, path), model.Options{})
		return modeltest.Feed(t, r.NewSequence(), r, ids, len(ids))
	}
	got, want := logits(path), logits(dir)
	wide := make([]float64, len(want))
	for i, x := range want {
		wide[i] = float64(x)
	}
	if d := modeltest.Distance(got, wide); !(d <= 2e-5) {
		t.Errorf("logits are %v of their spread from the folder's", d)
	}
}

// TestGGUFScalesWithoutAType: a scaling without a type is linear, and older files call its factor otherwise.
func TestGGUFScalesWithoutAType(t *testing.T) {
	for _, g := range goldens(t) {
		if g.Name() != "llama3_rope" {
			continue
		}
		dir := folder(t, g.Dir, ggufCases[g.Name()].edits)
		for _, key := range []string{"rope.scaling.factor", "rope.scale_linear"} {
			w := toGGUF(t, &g, "llama")
			w.set("llama.rope.freq_base", float32(500000))
			w.set("llama."+key, float32(4))
			path := filepath.Join(t.TempDir(), "model.gguf")
			write(t, path, w.bytes())
			compareModels(t, path, dir, g.IDs)
		}
	}
}

// TestRopeFactorsDivide: a GGUF file's own factors give llama-3 scaling.
func TestRopeFactorsDivide(t *testing.T) {
	for _, g := range goldens(t) {
		if g.Name() != "llama3_rope" {
			continue
		}
		w := toGGUF(t, &g, "llama")
		w.set("llama.rope.freq_base", float32(500000))
		factors := make([]float32, 8)
		for i := range factors {
			turns := 64 * math.Pow(500000, -float64(i)/8) / (2 * math.Pi)
			smooth := min(max((turns-1)/3, 0), 1)
			factors[i] = float32(1 / ((1-smooth)/8 + smooth))
		}
		w.tensors["rope_freqs.weight"] = ggufTensor{[]int{8}, factors}
		path := filepath.Join(t.TempDir(), "model.gguf")
		write(t, path, w.bytes())
		compareModels(t, path, g.Dir, g.IDs)
	}
}

// TestGGUFWithoutSense: metadata that is missing, of another type, or absurd, is an error in one line.
func TestGGUFWithoutSense(t *testing.T) {
	base := func(change func(w *ggufWriter, pairs map[string]any)) []byte {
		w := &ggufWriter{tensors: map[string]ggufTensor{"token_embd.weight": {[]int{4, 8}, make([]float32, 32)}}}
		pairs := map[string]any{
			"general.architecture": "qwen2", "qwen2.block_count": uint32(1), "qwen2.context_length": uint32(8), "qwen2.embedding_length": uint32(8),
			"qwen2.feed_forward_length": uint32(8), "qwen2.attention.head_count": uint32(2), "qwen2.attention.layer_norm_rms_epsilon": float32(1e-6),
		}
		change(w, pairs)
		for key, v := range pairs {
			if v != nil {
				w.set(key, v)
			}
		}
		return w.bytes()
	}
	set := func(key string, v any) []byte {
		return base(func(_ *ggufWriter, pairs map[string]any) { pairs[key] = v })
	}
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"no weights":            {base(func(*ggufWriter, map[string]any) {}), model.ErrWeight, "output_norm"},
		"no architecture":       {set("general.architecture", nil), model.ErrConfig, "architecture"},
		"another architecture":  {set("general.architecture", "rwkv"), model.ErrConfig, "rwkv"},
		"no layers":             {set("qwen2.block_count", uint32(0)), model.ErrConfig, "layers"},
		"2^32 layers":           {set("qwen2.block_count", uint32(math.MaxUint32)), model.ErrConfig, "layers"},
		"missing layers":        {set("qwen2.block_count", nil), model.ErrConfig, "block_count"},
		"half a layer":          {set("qwen2.block_count", float32(1.5)), model.ErrConfig, "block_count"},
		"layers as text":        {set("qwen2.block_count", "1"), model.ErrConfig, "block_count"},
		"no heads":              {set("qwen2.attention.head_count", uint32(0)), model.ErrConfig, "heads"},
		"NaN epsilon":           {set("qwen2.attention.layer_norm_rms_epsilon", float32(math.NaN())), model.ErrConfig, "epsilon"},
		"infinite rotary base":  {set("qwen2.rope.freq_base", float32(math.Inf(1))), model.ErrConfig, "rotary base"},
		"rotary on a part":      {set("qwen2.rope.dimension_count", uint32(2)), model.ErrConfig, "rotary"},
		"a scaling by number":   {set("qwen2.rope.scaling.type", uint32(1)), model.ErrConfig, "rope.scaling.type"},
		"values of another dim": {set("qwen2.attention.value_length", uint32(2)), model.ErrConfig, "values of 2"},
		"huge hidden size":      {set("qwen2.embedding_length", uint32(math.MaxUint32)), model.ErrConfig, "head dim"},
		"no vocabulary":         {base(func(w *ggufWriter, _ map[string]any) { delete(w.tensors, "token_embd.weight") }), model.ErrConfig, "vocabulary"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			write(t, path, c.data)
			wantRefused(t, path, c.kind, c.says)
		})
	}
}

// TestSmallQuantisedModelRuns: the file that the fuzzer begins with is a model.
func TestSmallQuantisedModelRuns(t *testing.T) {
	r := newRunner(t, openModel(t, "testdata/small.gguf"), model.Options{MaxSequences: 2})
	one, all := r.NewSequence(), r.NewSequence()
	ids := []int{1, 5, 3, 7, 2}
	a, b := modeltest.Feed(t, one, r, ids, 1), modeltest.Feed(t, all, r, ids, len(ids)) // read where they lie, and widened
	for i := range a {
		if d := a[i] - b[i]; !(d < 1e-4 && d > -1e-4) {
			t.Fatalf("logit %d is %v fed one by one, %v at once", i, a[i], b[i])
		}
	}
}
