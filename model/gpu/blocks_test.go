package gpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// layerTypes are the types of a layer's matrices in the order of its steps: queries, keys, values, output, gate, up, down.
type layerTypes [7]gguf.Type

func of(t gguf.Type) layerTypes { return layerTypes{t, t, t, t, t, t, t} }

// TestModelsInBlocks: models whose weights are in blocks, of one type or of several, some of which share a product, have
// the logits that they have on a CPU as a prompt, in float32, token by token, of a few at a time and of a whole prompt.
func TestModelsInBlocks(t *testing.T) {
	eng, d := open(t)
	host, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for name, types := range map[string][]layerTypes{
		"Q8_0": {of(gguf.Q8_0)}, "Q4_0": {of(gguf.Q4_0)}, "Q4_1": {of(gguf.Q4_1)}, "Q5_0": {of(gguf.Q5_0)}, "Q5_1": {of(gguf.Q5_1)},
		"K": {
			{gguf.Q4_K, gguf.Q4_K, gguf.Q6_K, gguf.Q4_K, gguf.Q4_K, gguf.Q4_K, gguf.Q6_K},
			{gguf.Q5_K, gguf.Q6_K, gguf.Q8_0, gguf.Q5_K, gguf.Q6_K, gguf.Q6_K, gguf.Q5_K},
		},
		"each its own": {
			{gguf.Q4_0, gguf.Q4_1, gguf.Q8_0, gguf.Q8_0, gguf.Q4_1, gguf.Q4_1, gguf.Q4_0}, // queries, keys and values in blocks of three types
			{gguf.Q4_0, gguf.F16, gguf.Q5_0, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q8_0},  // what shares a product is not all alike
			{gguf.BF16, gguf.Q8_0, gguf.F32, gguf.Q4_1, gguf.F16, gguf.F32, gguf.F16},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			writeLlama(t, path, types)
			checkAgainstHost(t, path, model.Options{Engine: host}, model.Options{Engine: eng, Device: d})
		})
	}
}

func checkAgainstHost(t *testing.T, path string, onHost, onDevice model.Options) {
	t.Helper()
	ids := make([]int, 23)
	for i := range ids {
		ids[i] = (5 + i*i*7) % 96
	}
	cpu := newRunner(t, path, onHost)
	want := modeltest.Feed(t, cpu.NewSequence(), cpu, ids, len(ids)) // many rows: by one, a CPU multiplies 16 bits of each number
	r := newRunner(t, path, onDevice)
	for chunk, limit := range map[int]float64{1: 4e-5, 3: 4e-5, len(ids): 5e-5} { // 16 bits of each number: the host's last row, cuBLAS all
		t.Run(fmt.Sprintf("chunk=%d", chunk), func(t *testing.T) {
			seq := r.NewSequence()
			within(t, path, modeltest.Feed(t, seq, r, ids, chunk), want, limit)
			if err := seq.Free(); err != nil {
				t.Error(err)
			}
		})
	}
}

// writeLlama writes a model of random weights, a layer an entry of types. Its head is its embedding, of the first type.
func writeLlama(t *testing.T, path string, types []layerTypes) {
	t.Helper()
	const vocab, heads, kvHeads, dim = 96, 4, 2, 64
	hidden, mlp := 64, 160
	if types[0][0].BlockElements() == 256 {
		hidden, mlp = 256, 512
	}
	rng := rand.New(rand.NewPCG(17, uint64(len(types))))
	w := &modeltest.GGUF{}
	w.Set("general.architecture", "llama")
	for key, n := range map[string]int{
		"block_count": len(types), "context_length": 64, "embedding_length": hidden, "feed_forward_length": mlp,
		"attention.head_count": heads, "attention.head_count_kv": kvHeads, "attention.key_length": dim,
	} {
		w.Set("llama."+key, uint32(n))
	}
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	norm := func(name string) {
		x := make([]float32, hidden)
		for i := range x {
			x[i] = 1 + float32(rng.NormFloat64())/4
		}
		w.Add(name, gguf.F32, modeltest.Float32s(x...), hidden)
	}
	matrix := func(name string, t gguf.Type, rows, cols int) {
		w.Add(name, t, randomRows(rng, t, rows, cols), rows, cols)
	}
	matrix("token_embd.weight", types[0][0], vocab, hidden)
	norm("output_norm.weight")
	for i, t := range types {
		p := fmt.Sprintf("blk.%d.", i)
		norm(p + "attn_norm.weight")
		norm(p + "ffn_norm.weight")
		for k, m := range []struct {
			name       string
			rows, cols int
		}{
			{"attn_q", heads * dim, hidden},
			{"attn_k", kvHeads * dim, hidden},
			{"attn_v", kvHeads * dim, hidden},
			{"attn_output", hidden, heads * dim},
			{"ffn_gate", mlp, hidden},
			{"ffn_up", mlp, hidden},
			{"ffn_down", hidden, mlp},
		} {
			matrix(p+m.name+".weight", t[k], m.rows, m.cols)
		}
	}
	w.Write(t, path)
}

// randomRows are weights around ±1/8, as rows of a type.
func randomRows(rng *rand.Rand, t gguf.Type, rows, cols int) []byte {
	var data []byte
	half := func(exponent int) { // a number of 2^exponent and up to twice that, of any sign
		data = binary.LittleEndian.AppendUint16(data, uint16(rng.UintN(2)<<15|uint(15+exponent)<<10|rng.UintN(1<<10)))
	}
	for i := range rows * cols / t.BlockElements() {
		switch x := float32(rng.NormFloat64() / 8); t {
		case gguf.F32:
			data = append(data, modeltest.Float32s(x)...)
		case gguf.BF16:
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(x)>>16))
		case gguf.F16:
			half(-4)
		case gguf.Q8_0:
			half(-10)
		case gguf.Q4_0, gguf.Q5_0:
			half(-6)
		case gguf.Q4_1, gguf.Q5_1:
			half(-7)
			half(-4)
		case gguf.Q4_K, gguf.Q5_K:
			half(-13)
			half(-12)
		}
		for len(data) < (i+1)*t.BlockBytes() {
			data = append(data, byte(rng.Uint32()))
		}
		if t == gguf.Q6_K {
			data = data[:len(data)-2]
			half(-14)
		}
	}
	return data
}
