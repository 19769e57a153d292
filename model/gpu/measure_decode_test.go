package gpu

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
)

var (
	decodeOut    = flag.String("measure-decode", "", "time decode steps of a made-up model of eight thousand million weights, and append rows to FILE")
	decodeCommit = flag.String("measure-commit", "", "commit to record")
	decodeLayers = flag.Int("measure-layers", 32, "layers of the made-up model")
	decodeBehind = flag.String("measure-behind", "tile", "when the product behind attention may start, separated by commas: tile, state, end, or late: only when attention has ended")
	decodeMost   = flag.Int("measure-most", 128<<10, "longest context")
)

// shape8B is Llama 3.1's of eight thousand million weights.
const shape8B = `{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": %d,
"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 135168,
"hidden_act": "silu", "rope_theta": 500000, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}}`

// madeUp writes a folder whose tensors are a hole in a file: the device makes numbers up in their place.
func madeUp(t *testing.T, layers int) string {
	t.Helper()
	dir, header, end := t.TempDir(), map[string]any{}, 0
	add := func(name string, shape ...int) {
		size := 2
		for _, n := range shape {
			size *= n
		}
		header[name] = map[string]any{"dtype": "BF16", "shape": shape, "data_offsets": []int{end, end + size}}
		end += size
	}
	add("model.embed_tokens.weight", 128256, 4096)
	add("lm_head.weight", 128256, 4096)
	add("model.norm.weight", 4096)
	for i := range layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", 4096)
		add(p+"post_attention_layernorm.weight", 4096)
		add(p+"self_attn.q_proj.weight", 4096, 4096)
		add(p+"self_attn.k_proj.weight", 1024, 4096)
		add(p+"self_attn.v_proj.weight", 1024, 4096)
		add(p+"self_attn.o_proj.weight", 4096, 4096)
		add(p+"mlp.gate_proj.weight", 14336, 4096)
		add(p+"mlp.up_proj.weight", 14336, 4096)
		add(p+"mlp.down_proj.weight", 4096, 14336)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	file := filepath.Join(dir, "model.safetensors")
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, shape8B, layers), 0o600),
		os.WriteFile(file, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o600),
		os.Truncate(file, int64(8+len(text)+end)),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// stretched is a device whose sequences have as many keys as wanted after their first token: made-up ones,
// so that a long context needs no prompt.
type stretched struct {
	*Device
	keys int // that a sequence has after its first batch
	last *stretchedSteps
}

type stretchedSteps struct {
	*steps
	d      *stretched
	filled bool
	splits int // most that a step was planned with
}

func (d *stretched) Open(n *network.Network, o network.Options) (network.Steps, error) {
	s := &stretchedSteps{d: d}
	plan := o.Plan
	o.Plan = func(k network.Kind, lens, queries []int) (*flashdec.Step, error) {
		step, err := plan(k, lens, queries)
		if err == nil {
			s.splits = step.Plan().MaxSplits()
		}
		return step, err
	}
	opened, err := d.Device.Open(n, o)
	if err != nil {
		return nil, err
	}
	s.steps, d.last = opened.(*steps), s
	return s, nil
}

func (s *stretchedSteps) Run(ctx context.Context, b *network.Batch, pass func() error) error {
	first := b.Positions[0] == 0 && s.d.keys > 0
	if err := s.steps.Run(ctx, b, pass); err != nil || !first {
		return err
	}
	for i, c := range s.caches {
		if err := b.Seqs[i][0].AppendFunc(s.d.keys-len(b.IDs), func(kv.PageID, int, int, int) error { return nil }); err != nil {
			return err
		}
		view, err := c.View(b.Seqs[i][0])
		if err != nil {
			return err
		}
		if s.filled {
			continue
		}
		for j, p := range [...]kv.Plane{view.K, view.V} {
			if err := s.ctx.Do(func() error {
				return madeUpNumbers(s.Device(), nv.Pointer(p.Device.Address), p.Device.Bytes/2, bf16, uint64(j+1), 1)
			}); err != nil {
				return err
			}
		}
	}
	s.filled = true
	return nil
}

func (s *stretchedSteps) Device() *Device { return s.steps.d }

func madeUpNumbers(d *Device, p nv.Pointer, n int, e elem, seed uint64, spread float32) error {
	return launch(d, fillNumbers, grid(16*d.multiprocessors, 1), block, 0, fillParams{data: p, n: int64(n), seed: seed, elem: e, spread: spread})
}

// TestMeasureDecode times a decode step from the call to its logits on the host, against the context's length,
// with the splits that the plan chooses and with none, and a bare read of as many bytes.
func TestMeasureDecode(t *testing.T) {
	if *decodeOut == "" {
		t.Skip("times on request: -measure-decode FILE")
	}
	g, err := cuda.Open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := flashdec.Open(flashdec.Options{Backend: g})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	inner, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	seed := uint64(0)
	inner.fill = func(u *uploader, to matrix, _ *network.Matrix) error {
		seed++
		return madeUpNumbers(u.d, to.data, to.rows*to.pitch/2, bf16, seed<<40, 0.03)
	}
	m, err := model.Open(madeUp(t, *decodeLayers))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d := &stretched{Device: inner}
	start := time.Now()
	keep, err := model.NewRunner(m, model.Options{Engine: eng, Device: d, MaxContext: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close() // the weights stay between the runners
	t.Logf("weights made up in %v", time.Since(start))
	out, err := os.OpenFile(*decodeOut, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	whole, err := flashdec.Open(flashdec.Options{Backend: g, MinKeysPerSplit: 1 << 30}) // closed with the other
	if err != nil {
		t.Fatal(err)
	}
	behind := strings.Split(*decodeBehind, ",")
	for splits, eng := range []*flashdec.Engine{eng, whole} {
		for _, when := range behind[:len(behind)*(1-splits)+splits] { // the unsplit form with the first
			next, ok := behindAttention[when]
			if !ok {
				t.Fatalf("-measure-behind is %q, want tile, state, end or late", when)
			}
			inner.next, inner.late = next, when == "late"
			r, err := model.NewRunner(m, model.Options{
				Engine: eng, Device: d, KeyType: kv.BF16, ValueType: kv.BF16, MaxContext: *decodeMost + 1024,
				BatchTokens: 1024,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := timePrompt(d, r); err != nil {
				t.Fatal(err)
			}
			for n := 1 << 10; n <= *decodeMost; n *= 2 {
				fmt.Printf("%-5s ", when)
				row, err := timeDecode(d, m, r, n, splits)
				if err != nil {
					t.Fatal(err)
				}
				row.Commit, row.Command, row.GPUs = *decodeCommit, "go test ./model/gpu -run TestMeasureDecode -measure-decode FILE", 1
				row.Device, row.Kernel = eng.Info().Device, eng.Info().Kernel
				line, err := json.Marshal(row)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// behindAttention is when the product behind attention may start.
var behindAttention = map[string]cuda.NextStart{
	"tile": cuda.NextAtLastTile, "state": cuda.NextAtState, "end": cuda.NextAtEnd, "late": cuda.NextAtEnd,
}

// timePrompt tells how fast a prompt is read.
func timePrompt(d *stretched, r *model.Runner) error {
	const tokens = 4096
	d.keys = 0
	for range 2 { // the first loads what cuBLAS needs
		seq, start := r.NewSequence(), time.Now()
		if err := seq.Feed(context.Background(), make([]int, tokens), make([]float32, r.Config().VocabSize), nil); err != nil {
			return err
		}
		fmt.Printf("prompt of %d tokens: %.0f tokens/s\n", tokens, tokens/time.Since(start).Seconds())
		if err := seq.Free(); err != nil {
			return err
		}
	}
	return nil
}

// timeDecode steps one sequence of n keys.
func timeDecode(d *stretched, m *model.Model, r *model.Runner, n, splits int) (bench.Row, error) {
	const steps, warm = 24, 3
	d.keys = n
	ctx, seq, logits := context.Background(), r.NewSequence(), make([]float32, m.Config().VocabSize)
	s := bench.ModelSteps{
		Model: "Llama-3.1-8B's shape", Context: n, Impl: "flashdec", WeightBytes: m.WeightBytes(), KVDType: "bf16",
		KVBytes: n * m.Config().NumLayers() * 2 * 2 * m.Config().NumKVHeads * m.Config().HeadDim,
		QHeads:  m.Config().NumHeads, KVHeads: m.Config().NumKVHeads, Dim: m.Config().HeadDim,
	}
	if splits == 1 {
		s.Impl = "unsplit"
	}
	for i := range 1 + warm + steps {
		start := time.Now()
		if err := r.Forward(ctx, model.Part{Seq: seq, IDs: []int{i}, Logits: logits}); err != nil {
			return bench.Row{}, err
		}
		if i > warm {
			s.Seconds = append(s.Seconds, time.Since(start).Seconds())
		}
	}
	s.Splits = d.last.splits
	if slices.ContainsFunc(logits, func(x float32) bool { return x != x }) {
		return bench.Row{}, errors.New("logits are NaN")
	}
	var graph, floor float64
	err := d.ctx.Do(func() (err error) {
		recorded := d.last.graphs[1].graph
		if graph, err = timedOnce(d.Device, 5, func() error { return recorded.Launch(d.stream) }); err != nil {
			return err
		}
		for range 3 {
			if floor, err = timedOnce(d.Device, 1, func() error { return readBytes(d, s.WeightBytes+s.KVBytes) }); err != nil {
				return err
			}
			s.Ceiling = append(s.Ceiling, float64(s.WeightBytes+s.KVBytes)/floor)
		}
		return nil
	})
	if err != nil {
		return bench.Row{}, err
	}
	row := s.Row(0, d.gpu.Info())
	fmt.Printf("%-9s %6d keys, splits %3d: step %7.3f ms, least %7.3f, graph alone %7.3f, read %7.3f: %.3f of the read, %.1f tokens/s\n",
		s.Impl, n, s.Splits, 1e3*row.Seconds, 1e3*row.Min, 1e3*graph, 1e3*floor, row.Seconds*row.Ceiling/float64(s.WeightBytes+s.KVBytes), row.TokenRate)
	return row, seq.Free()
}

// readBytes reads as many bytes of the cache, again and again where it has fewer.
func readBytes(d *stretched, n int) error {
	view, err := d.last.caches[0].View()
	if err != nil {
		return err
	}
	for n > 0 {
		part := min(n, view.K.Device.Bytes) / 16
		if err := launch(d.Device, readFloor, grid(8*d.multiprocessors, 1), block, 0, floorParams{
			data: nv.Pointer(view.K.Device.Address), chunks: int64(part), sink: d.last.buffers.x,
		}); err != nil {
			return err
		}
		n -= part * 16
		if part == 0 {
			break
		}
	}
	return nil
}

// timedOnce is the seconds of one of so many, by the GPU's clock.
func timedOnce(d *Device, count int, one func() error) (float64, error) {
	var events [2]*nv.Event
	for i := range events {
		var err error
		if events[i], err = d.ctx.NewEvent(); err != nil {
			return 0, err
		}
		defer events[i].Destroy()
	}
	if err := events[0].Record(d.stream); err != nil {
		return 0, err
	}
	for range count {
		if err := one(); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(events[1].Record(d.stream), events[1].Synchronize()); err != nil {
		return 0, err
	}
	ms, err := events[1].Since(events[0])
	return float64(ms) / 1e3 / float64(count), err
}
