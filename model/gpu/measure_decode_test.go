package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

var (
	decodeOut    = flag.String("measure-decode", "", "time decode steps of a made-up model of eight thousand million weights, and append rows to FILE")
	decodeCommit = flag.String("measure-commit", "", "commit to record")
	decodeLayers = flag.Int("measure-layers", 32, "layers of the made-up model")
	decodePart   = flag.Int("measure-part", 1, "a shape whose sizes are by so much smaller: to try the measurement")
	decodeMost   = flag.Int("measure-most", 128<<10, "longest context")
	decodeTypes  = flag.String("measure-types", "BF16,Q8_0,Q4_0,Q4_K", "types of weights")
)

// decodable are the types that are timed, by name.
var decodable = map[string]gguf.Type{
	"BF16": gguf.BF16, "Q8_0": gguf.Q8_0, "Q4_0": gguf.Q4_0, "Q4_1": gguf.Q4_1, "Q4_K": gguf.Q4_K, "Q5_K": gguf.Q5_K, "Q6_K": gguf.Q6_K,
}

// madeUp writes a GGUF file of Llama 3.1's shape of eight thousand million weights, whose matrices are a hole in it: the
// device makes numbers up in their place.
func madeUp(t *testing.T, layers, part int, of gguf.Type) string {
	t.Helper()
	vocab, hidden, heads, kvHeads, mlp := 128256/part, 4096/part, 32/part, max(8/part, 1), 14336/part
	const dim = 128
	w := &modeltest.GGUF{}
	w.Set("general.architecture", "llama")
	for key, n := range map[string]int{
		"block_count": layers, "context_length": 135168, "embedding_length": hidden, "feed_forward_length": mlp,
		"attention.head_count": heads, "attention.head_count_kv": kvHeads, "attention.key_length": dim,
	} {
		w.Set("llama."+key, uint32(n))
	}
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	w.Set("llama.rope.freq_base", float32(500000))
	norm := modeltest.Float32s(slices.Repeat([]float32{1}, hidden)...)
	w.Add("token_embd.weight", of, nil, vocab, hidden)
	w.Add("output.weight", of, nil, vocab, hidden)
	w.Add("output_norm.weight", gguf.F32, norm, hidden)
	for i := range layers {
		p := fmt.Sprintf("blk.%d.", i)
		w.Add(p+"attn_norm.weight", gguf.F32, norm, hidden)
		w.Add(p+"ffn_norm.weight", gguf.F32, norm, hidden)
		w.Add(p+"attn_q.weight", of, nil, heads*dim, hidden)
		w.Add(p+"attn_k.weight", of, nil, kvHeads*dim, hidden)
		w.Add(p+"attn_v.weight", of, nil, kvHeads*dim, hidden)
		w.Add(p+"attn_output.weight", of, nil, hidden, heads*dim)
		w.Add(p+"ffn_gate.weight", of, nil, mlp, hidden)
		w.Add(p+"ffn_up.weight", of, nil, mlp, hidden)
		w.Add(p+"ffn_down.weight", of, nil, hidden, mlp)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	w.Write(t, path)
	return path
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

// madeUpWeights fills a matrix. Blocks get the bits of f16 numbers for codes and for scales.
func madeUpWeights(d *Device, to matrix, seed uint64) error {
	spread, e := map[elem]float32{bf16: 0.03, q8_0: 5e-4, q4_0: 8e-3, q4_1: 8e-3, q4_K: 1e-4, q5_K: 5e-5, q6_K: 1e-5}[to.elem], to.elem
	if e.inBlocks() {
		e = f16
	}
	return madeUpNumbers(d, to.data, to.rows*to.pitch/2, e, seed<<40, spread)
}

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
	whole, err := flashdec.Open(flashdec.Options{Backend: g, MinKeysPerSplit: 1 << 30}) // closed with the other
	if err != nil {
		t.Fatal(err)
	}
	inner, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	seed := uint64(0)
	inner.fill = func(u *uploader, to matrix, _ *network.Matrix) error {
		seed++
		return madeUpWeights(u.d, to, seed)
	}
	out, err := os.OpenFile(*decodeOut, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, name := range strings.Split(*decodeTypes, ",") {
		if _, ok := decodable[name]; !ok {
			t.Fatalf("-measure-types has %q, want some of %v", name, slices.Sorted(maps.Keys(decodable)))
		}
		measureDecode(t, &stretched{Device: inner}, name, [2]*flashdec.Engine{eng, whole}, out)
	}
}

// measureDecode times a model of one type of weights, with the engine that splits and the one that does not.
func measureDecode(t *testing.T, d *stretched, name string, engines [2]*flashdec.Engine, out io.Writer) {
	m, err := model.Open(madeUp(t, *decodeLayers, *decodePart, decodable[name]))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keep, err := model.NewRunner(m, model.Options{Engine: engines[0], Device: d, MaxContext: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close() // the weights stay between the runners
	shape := "Llama-3.1-8B's shape"
	if name != "BF16" {
		shape += ", " + name
	}
	for splits, eng := range engines {
		r, err := model.NewRunner(m, model.Options{
			Engine: eng, Device: d, KeyType: kv.BF16, ValueType: kv.BF16, MaxContext: max(*decodeMost, promptTokens) + 1024,
			BatchTokens: 1024,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := timePrompt(d, r); err != nil {
			t.Fatal(err)
		}
		for n := 1 << 10; n <= *decodeMost; n *= 2 {
			fmt.Printf("%s ", name)
			row, err := timeDecode(d, m, r, shape, n, splits)
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

// promptTokens is how long a prompt is timed.
const promptTokens = 4096

// timePrompt tells how fast a prompt is read.
func timePrompt(d *stretched, r *model.Runner) error {
	d.keys = 0
	for range 2 { // the first loads what cuBLAS needs
		seq, start := r.NewSequence(), time.Now()
		if err := seq.Feed(context.Background(), make([]int, promptTokens), make([]float32, r.Config().VocabSize), nil); err != nil {
			return err
		}
		fmt.Printf("prompt of %d tokens: %.0f tokens/s\n", promptTokens, promptTokens/time.Since(start).Seconds())
		if err := seq.Free(); err != nil {
			return err
		}
	}
	return nil
}

// timeDecode steps one sequence of n keys.
func timeDecode(d *stretched, m *model.Model, r *model.Runner, shape string, n, splits int) (bench.Row, error) {
	const steps, warm = 24, 3
	d.keys = n
	ctx, seq, logits := context.Background(), r.NewSequence(), make([]float32, m.Config().VocabSize)
	s := bench.ModelSteps{
		Model: shape, Context: n, Impl: "flashdec", WeightBytes: m.WeightBytes(), KVDType: "bf16",
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
