package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// steps computes one network's batches. It implements [network.Steps]: each step puts
// kernels into the stream, and all run inside the context's Do, under the device's lock.
type steps struct {
	memory
	d       *Device
	n       *network.Network
	o       network.Options
	w       *weights
	caches  []network.Cache // one a kind
	kinds   [network.NumKinds]kindState
	slots   []int // of each layer: which of its kind it is
	buffers buffers

	in        *network.Batch
	recording bool // the pass under way
	tokens    int
	graphs    map[int]*recording // by the number of sequences
	closed    bool
}

// kindState is the layers of a kind: their cache, and the step under way.
type kindState struct {
	index int // among the caches
	cache *cuda.Cache
	view  kv.View
	step  *cuda.Step
}

// buffers lie on the device.
type buffers struct {
	numbers   nv.Pointer // [numNumbers, tokens] int32
	x, h      nv.Pointer // [tokens, HiddenSize]
	q, o      nv.Pointer // [tokens, NumHeads, HeadDim]
	k, v      nv.Pointer // [tokens, NumKVHeads, HeadDim]
	gate, up  nv.Pointer // [tokens·experts a token, MLPSize]
	logits    nv.Pointer // [logitRows, VocabSize]
	high, low nv.Pointer // [tokens, the widest input] bf16: the two parts of a product's rows
	scratch   nv.Pointer // float32 of a matrix of another type

	scores, mix, chosen nv.Pointer // of a mixture: [tokens, experts], [tokens, a token] float32 and int32
	answers             nv.Pointer // [tokens·experts a token, HiddenSize]
}

// logitRows is how many tokens' logits are computed at a time.
const logitRows = 64

// Open implements [network.Device].
func (d *Device) Open(n *network.Network, o network.Options) (network.Steps, error) {
	if d == nil {
		return nil, errClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	for _, kind := range [...]kv.ScaleKind{o.Cache[network.Full].KeyScales.Kind, o.Cache[network.Full].ValueScales.Kind} {
		if kind != kv.NoScales && kind != kv.TokenScale {
			return nil, fmt.Errorf("gpu: %w: scales of kind %v, want those of tokens in a model on a GPU", attn.ErrShape, kind)
		}
	}
	s := &steps{memory: memory{ctx: d.ctx}, d: d, n: n, o: o, graphs: map[int]*recording{}}
	var counts [network.NumKinds]int
	for i := range n.Layers {
		k := n.Layers[i].Kind
		s.slots = append(s.slots, counts[k])
		counts[k]++
	}
	err := d.ctx.Do(func() (err error) {
		if s.w, err = d.hold(n); err != nil {
			return err
		}
		return errors.Join(s.reserve(), s.openCaches())
	})
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// openCaches makes a cache for the layers of each kind. They are one cache, of the KV
// heads of all: what is kept of a sequence, and where, is the same in all of them.
func (s *steps) openCaches() error {
	for k := range network.NumKinds {
		layers := s.n.NumLayers(k)
		if layers == 0 {
			continue
		}
		cfg := s.o.Cache[k]
		cfg.NumKVHeads *= layers
		cache, err := s.d.gpu.NewCache(cfg)
		if err != nil {
			return err
		}
		s.kinds[k] = kindState{index: len(s.caches), cache: cache}
		s.caches = append(s.caches, network.Cache{Cache: cache.Cache, Kind: k})
	}
	return nil
}

func (s *steps) reserve() error {
	n, most := s.n, s.o.MaxTokens
	hidden, heads, kvHeads := n.HiddenSize, n.Shape.NumHeads*n.Shape.KeyDim, n.Shape.NumKVHeads*n.Shape.KeyDim
	answers := most * max(n.ExpertsPerToken, 1)
	b := &s.buffers
	type room struct {
		to    *nv.Pointer
		bytes int
	}
	rooms := []room{
		{&b.numbers, 4 * numNumbers * most},
		{&b.x, 4 * most * hidden},
		{&b.h, 4 * most * hidden},
		{&b.q, 4 * most * heads},
		{&b.o, 4 * most * heads},
		{&b.k, 4 * most * kvHeads},
		{&b.v, 4 * most * kvHeads},
		{&b.gate, 4 * answers * n.MLPSize},
		{&b.logits, 4 * min(most, logitRows) * n.VocabSize},
	}
	if s.d.blas != nil {
		widest := max(hidden, heads, n.MLPSize)
		rooms = append(rooms, room{&b.up, 4 * most * n.MLPSize}, room{&b.high, 2 * most * widest}, room{&b.low, 2 * most * widest})
		rooms = append(rooms, room{&b.scratch, s.scratchBytes()})
	}
	if experts := s.numExperts(); experts > 0 {
		rooms = append(rooms, room{&b.scores, 4 * most * experts}, room{&b.mix, 4 * answers}, room{&b.chosen, 4 * answers}, room{&b.answers, 4 * answers * hidden})
	}
	for _, r := range rooms {
		var err error
		if *r.to, err = s.take(r.bytes); err != nil {
			return err
		}
	}
	return nil
}

func (s *steps) numExperts() int {
	most := 0
	for i := range s.n.Layers {
		most = max(most, len(s.n.Layers[i].Experts))
	}
	return most
}

// Caches implements [network.Steps].
func (s *steps) Caches() []network.Cache { return s.caches }

// Attending implements [network.Steps]: what is replayed has no seams to time.
func (s *steps) Attending() float64 { return 0 }

// WeightBytes implements [network.Steps].
func (s *steps) WeightBytes() int {
	bytes := func(w *linear) int { return w.rows * w.elem.rowBytes(w.cols) }
	n := bytes(&s.w.head)
	for i := range s.w.layers {
		l := &s.w.layers[i]
		mlp := bytes(&l.gate) + bytes(&l.up) + bytes(&l.down)
		if l.router.rows > 0 {
			mlp = mlp*s.n.ExpertsPerToken + bytes(&l.router)
		}
		n += bytes(&l.query) + bytes(&l.key) + bytes(&l.value) + bytes(&l.out) + mlp
	}
	return n
}

// Close implements [network.Steps].
func (s *steps) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.release()
}

func (s *steps) release() error {
	return s.d.ctx.Do(func() error {
		err := s.d.stream.Synchronize()
		for _, r := range s.graphs {
			err = errors.Join(err, r.close())
		}
		for _, c := range s.caches {
			err = errors.Join(err, c.Close())
		}
		if s.w != nil {
			err = errors.Join(err, s.d.drop(s.n))
		}
		return errors.Join(err, s.free())
	})
}

// Run implements [network.Steps].
func (s *steps) Run(ctx context.Context, b *network.Batch, pass func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.in, s.tokens = b, len(b.IDs)
	defer func() { s.in = nil }()
	return s.d.ctx.Do(func() error {
		if err := s.begin(); err != nil {
			return err
		}
		if s.recordable() {
			return s.replay(pass)
		}
		return s.once(pass)
	})
}

// numNumbers are the rows of buffers.numbers.
const (
	rowIDs = iota
	rowPositions
	rowRows
	rowPlaces  // of caches of each kind
	numNumbers = rowPlaces + int(network.NumKinds)
)

func (s *steps) numbers(row int) nv.Pointer {
	return s.buffers.numbers + nv.Pointer(4*row*s.tokens)
}

// begin makes room for the new keys in the caches, and brings over what the kernels
// read of a batch: ids, positions, and the places of the keys.
func (s *steps) begin() error {
	n := s.tokens
	numbers := make([]int32, numNumbers*n)
	for i, id := range s.in.IDs {
		numbers[rowIDs*n+i], numbers[rowPositions*n+i] = int32(id), int32(s.in.Positions[i])
	}
	for i, row := range s.in.Rows {
		numbers[rowRows*n+i] = int32(row)
	}
	for i, c := range s.caches {
		places := numbers[(rowPlaces+int(c.Kind))*n:]
		for j, seq := range s.in.Seqs[i] {
			err := seq.AppendFunc(s.in.Queries[j], func(page kv.PageID, slot, first, count int) error {
				for t := range count {
					places[first+t] = int32(int(page)*c.Config().PageSize + slot + t)
				}
				return nil
			})
			if err != nil {
				return err
			}
			places = places[s.in.Queries[j]:]
		}
		view, err := c.View(s.in.Seqs[i]...)
		if err != nil {
			return err
		}
		s.kinds[c.Kind].view = view
	}
	return nv.Upload(s.d.stream, s.buffers.numbers, numbers)
}

// once plans, runs and forgets.
func (s *steps) once(pass func() error) (err error) {
	defer func() {
		err = errors.Join(err, s.d.stream.Synchronize(), s.closeSteps())
	}()
	if err := s.plan(0); err != nil {
		return err
	}
	return pass()
}

func (s *steps) closeSteps() error {
	var err error
	for k := range s.kinds {
		if step := s.kinds[k].step; step != nil {
			err = errors.Join(err, step.Close())
		}
		s.kinds[k].step = nil
	}
	return err
}
