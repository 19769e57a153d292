package model_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
	"github.com/flashdec/flashdec/tensorfile"
)

const smallest = "testdata/golden/qwen2"

// folder copies a golden model and applies edits to its config.json: values by key, nil removes.
func folder(t testing.TB, from string, edits map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	for k, v := range edits {
		if config[k] = v; v == nil {
			delete(config, k)
		}
	}
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), data)
	weights, err := filepath.Abs(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(weights, filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// wantRefused opens a model and wants one line of error of that kind that says something.
func wantRefused(t *testing.T, path string, kind error, says string) {
	t.Helper()
	m, err := model.Open(path)
	if err == nil {
		_ = m.Close()
	}
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "Go ") {
		t.Errorf("error %v, want one line that wraps %q and says %q", err, kind, says)
	}
}

func TestConfigsWithoutSenseAreErrors(t *testing.T) {
	type edits = map[string]any
	rope := func(kv ...any) edits {
		m := edits{"rope_theta": 10000.0}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return edits{"rope_parameters": m}
	}
	for name, c := range map[string]struct {
		edits edits
		kind  error
		says  string
	}{
		"another family":            {edits{"model_type": "mamba"}, model.ErrConfig, "mamba"},
		"no family":                 {edits{"model_type": nil}, model.ErrConfig, "model_type"},
		"no heads":                  {edits{"num_attention_heads": 0}, model.ErrConfig, "heads"},
		"negative heads":            {edits{"num_attention_heads": -6, "head_dim": 16}, model.ErrConfig, "heads"},
		"huge heads":                {edits{"num_attention_heads": int64(1) << 40, "head_dim": 16}, model.ErrConfig, "heads"},
		"heads off the groups":      {edits{"num_key_value_heads": 4}, model.ErrConfig, "multiple"},
		"more KV heads":             {edits{"num_key_value_heads": 12}, model.ErrConfig, "KV heads"},
		"head dim unknown":          {edits{"num_attention_heads": 7, "num_key_value_heads": 7}, model.ErrConfig, "head_dim"},
		"odd head dim":              {edits{"head_dim": 15}, model.ErrConfig, "head dim 15 is odd"},
		"huge head dim":             {edits{"head_dim": int64(1) << 40}, model.ErrConfig, "head dim"},
		"another head dim":          {edits{"head_dim": 32}, model.ErrWeight, "self_attn.q_proj.weight"},
		"2^40 layers":               {edits{"num_hidden_layers": int64(1) << 40, "layer_types": nil}, model.ErrConfig, "layers"},
		"no layers":                 {edits{"num_hidden_layers": 0, "layer_types": nil}, model.ErrConfig, "layers"},
		"a layer too many":          {edits{"num_hidden_layers": 4, "layer_types": nil}, model.ErrWeight, "model.layers.3"},
		"a layer too few":           {edits{"num_hidden_layers": 2, "layer_types": nil}, model.ErrWeight, "model.layers.2"},
		"layer types":               {edits{"layer_types": []string{"full_attention"}}, model.ErrConfig, "layer_types"},
		"an unknown layer type":     {edits{"layer_types": []string{"full_attention", "linear", "x"}}, model.ErrConfig, "linear"},
		"sliding without window":    {edits{"layer_types": []string{"full_attention", "full_attention", "sliding_attention"}}, model.ErrConfig, "window"},
		"negative window":           {edits{"layer_types": []string{"full_attention", "full_attention", "sliding_attention"}, "sliding_window": -1}, model.ErrConfig, "window"},
		"vocabulary":                {edits{"vocab_size": 385}, model.ErrWeight, "embed_tokens"},
		"huge vocabulary":           {edits{"vocab_size": int64(1) << 50}, model.ErrConfig, "vocabulary"},
		"hidden size":               {edits{"hidden_size": 0, "head_dim": 16}, model.ErrConfig, "hidden size"},
		"MLP size":                  {edits{"intermediate_size": 161}, model.ErrWeight, "gate_proj"},
		"no context":                {edits{"max_position_embeddings": 0}, model.ErrConfig, "context"},
		"negative epsilon":          {edits{"rms_norm_eps": -1}, model.ErrConfig, "epsilon"},
		"epsilon past float64":      {edits{"rms_norm_eps": json.Number("1e999")}, model.ErrConfig, "rms_norm_eps"},
		"a string for a number":     {edits{"hidden_size": "96"}, model.ErrConfig, "hidden_size has a string, want a whole number of 64 bits"},
		"a fraction of a layer":     {edits{"num_hidden_layers": 2.5}, model.ErrConfig, "num_hidden_layers has the number 2.5, want a whole number of 64 bits"},
		"a number for a list":       {edits{"layer_types": 3}, model.ErrConfig, "layer_types has a number, want a list"},
		"a string for a token":      {edits{"bos_token_id": "1"}, model.ErrConfig, "bos_token_id has a string, want a whole number of 64 bits"},
		"half a token":              {edits{"eos_token_id": 1.5}, model.ErrConfig, "eos_token_id has the number 1.5, want a whole number of 64 bits"},
		"strings among tokens":      {edits{"eos_token_id": []any{1, "2"}}, model.ErrConfig, "eos_token_id has a string, want a whole number of 64 bits"},
		"a text model that is none": {edits{"text_config": 3}, model.ErrConfig, "text_config: a number, want an object"},
		"a text model's number":     {edits{"text_config": edits{"head_dim": "x"}}, model.ErrConfig, "text_config: head_dim has a string, want a whole number of 64 bits"},
		"rotary parameters":         {edits{"rope_parameters": []int{1}}, model.ErrConfig, "rope_parameters: a list, want an object"},
		"a rotary base of text":     {rope("rope_theta", "1e4"), model.ErrConfig, "rope_parameters: rope_theta has a string, want a number of 64 bits"},
		"another activation":        {edits{"hidden_act": "relu"}, model.ErrConfig, "relu"},
		"quantised":                 {edits{"quantization_config": edits{"quant_method": "gptq"}}, model.ErrConfig, "quantization_config"},
		"biases that are not there": {edits{"attention_bias": true}, model.ErrWeight, "o_proj.bias"},
		"untied without a head":     {edits{"tie_word_embeddings": false}, model.ErrWeight, "lm_head"},
		"rotary base 0":             {rope("rope_theta", -1), model.ErrConfig, "rotary base"},
		"rotary scaling":            {rope("rope_type", "longrope", "factor", 2), model.ErrConfig, "longrope"},
		"rotary factor":             {rope("rope_type", "linear", "factor", 0.5), model.ErrConfig, "factor"},
		"llama3 borders":            {rope("rope_type", "llama3", "factor", 8, "low_freq_factor", 4, "high_freq_factor", 1), model.ErrConfig, "low < high"},
		"yarn betas":                {rope("rope_type", "yarn", "factor", 8, "beta_slow", 40), model.ErrConfig, "slow ≤ fast"},
		"rotary on a part":          {rope("partial_rotary_factor", 0.25), model.ErrConfig, "0.25"},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, folder(t, smallest, c.edits), c.kind, c.says) })
	}
}

// TestFoldersThatAreNoModel: files that are missing, malformed, or lead elsewhere.
func TestFoldersThatAreNoModel(t *testing.T) {
	index := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			data, err := json.Marshal(map[string]any{"weight_map": map[string]string{"x": name}})
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "model.safetensors.index.json"), data)
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		kind  error
		says  string
	}{
		"no config":  {func(_ *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "config.json")) }, os.ErrNotExist, "config.json"},
		"no weights": {func(_ *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "model.safetensors")) }, os.ErrNotExist, "model.safetensors"},
		"half a config": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.json"), []byte(`{"model_type": "qw`))
		}, model.ErrConfig, "config.json"},
		"NaN": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.json"), []byte(`{"rms_norm_eps": NaN}`))
		}, model.ErrConfig, "config.json"},
		"a list": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "config.json"), []byte(`[]`)) }, model.ErrConfig, "config.json"},
		"generation": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id": "x"}`))
		}, model.ErrConfig, "generation_config.json"},
		"index of naught": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(`{}`))
		}, model.ErrConfig, "names no file"},
		"index elsewhere": {index("../model.safetensors"), model.ErrConfig, "../model.safetensors"},
		"index of a dir":  {index(".."), model.ErrConfig, ".."},
		"index to root":   {index("/etc/passwd"), model.ErrConfig, "/etc/passwd"},
		"shard missing":   {index("model-00001-of-00001.safetensors"), os.ErrNotExist, "00001"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, smallest, nil)
			c.spoil(t, dir)
			wantRefused(t, dir, c.kind, c.says)
		})
	}
	wantRefused(t, filepath.Join(t.TempDir(), "none"), os.ErrNotExist, "none")
}

// TestTensorsThatDoNotFit: missing, of another type, or one that nothing uses, which would be left out of
// the sum without a word.
func TestTensorsThatDoNotFit(t *testing.T) {
	f, err := tensorfile.Open(filepath.Join(smallest, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const victim = "model.layers.1.self_attn.k_proj.bias"
	for name, c := range map[string]struct {
		change func(tensors []tensorfile.Tensor, i int) []tensorfile.Tensor
		says   string
	}{
		"missing": {func(x []tensorfile.Tensor, i int) []tensorfile.Tensor { return append(x[:i], x[i+1:]...) }, victim},
		"ints": {func(x []tensorfile.Tensor, i int) []tensorfile.Tensor {
			x[i].DType = tensorfile.I16
			return x
		}, "F32, F16 or BF16"},
		"transposed": {func(x []tensorfile.Tensor, i int) []tensorfile.Tensor {
			x[i].Shape = []int{1, 32}
			return x
		}, "[1 32]"},
		"one too many": {func(x []tensorfile.Tensor, i int) []tensorfile.Tensor {
			extra := x[i]
			extra.Name = "model.layers.1.self_attn.q_norm.weight"
			return append(x, extra)
		}, "no place"},
	} {
		t.Run(name, func(t *testing.T) {
			tensors := append([]tensorfile.Tensor(nil), f.Tensors...)
			at := -1
			for i := range tensors {
				if tensors[i].Name == victim {
					at = i
				}
			}
			if at < 0 {
				t.Fatalf("no tensor %s", victim)
			}
			dir := folder(t, smallest, nil)
			path := filepath.Join(dir, "model.safetensors")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := tensorfile.WriteSafetensors(path, c.change(tensors, at), nil); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, dir, model.ErrWeight, c.says)
		})
	}
}

// TestShardsAreOneModel: the same tensors in two files with an index give the same logits.
func TestShardsAreOneModel(t *testing.T) {
	f, err := tensorfile.Open(filepath.Join(smallest, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := folder(t, smallest, nil)
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	weightMap := map[string]string{}
	for i, name := range []string{"a.safetensors", "b.safetensors"} {
		half := f.Tensors[i*len(f.Tensors)/2 : (i+1)*len(f.Tensors)/2]
		for _, x := range half {
			weightMap[x.Name] = name
		}
		if err := tensorfile.WriteSafetensors(filepath.Join(dir, name), half, nil); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"weight_map": weightMap})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "model.safetensors.index.json"), data)
	ids := []int{1, 2, 3}
	logits := func(dir string) []float32 {
		r := newRunner(t, openModel(t, dir), model.Options{})
		return modeltest.Feed(t, r.NewSequence(), r, ids, len(ids))
	}
	whole, sharded := logits(smallest), logits(dir)
	for i := range whole {
		if whole[i] != sharded[i] {
			t.Fatalf("logit %d is %v of shards, want %v", i, sharded[i], whole[i])
		}
	}
	if err := tensorfile.WriteSafetensors(filepath.Join(dir, "b.safetensors"), f.Tensors, nil); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, model.ErrWeight, "in another file")
}
