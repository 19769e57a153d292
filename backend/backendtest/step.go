package backendtest

import (
	"math/rand/v2"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// unusedPage stands in page table entries that the length does not need.
const unusedPage kv.PageID = 2147480000

const (
	sparePages   = 3 // pages that no sequence owns, all poison
	spareEntries = 2 // unused entries after the last of each page table
)

// Step is a case in memory. Slots that hold no key, paddings, spare pages and
// spare page table entries are poisoned.
type Step struct {
	Case *Case
	Q    []float32 // [queries, NumHeads, KeyDim]
	View kv.View

	refs []attn.Reference // [seqs] made when first wanted
}

// Build lays the case out in memory and fills it.
func (c Case) Build() *Step {
	s := &Step{Case: &c}
	s.buildView()
	s.fillView()
	s.fillQ()
	return s
}

func (s *Step) fillQ() {
	c := s.Case
	queries := 0
	for i := range c.Lens {
		queries += c.numQueries(i)
	}
	s.Q = make([]float32, queries*c.Shape.NumHeads*c.Shape.KeyDim)
	rest := s.Q
	for i := range c.Lens {
		for query := range c.numQueries(i) {
			for head := range c.Shape.NumHeads {
				c.query(rest[:c.Shape.KeyDim], i, query, head)
				rest = rest[c.Shape.KeyDim:]
			}
		}
	}
}

// buildView makes planes full of poison, and page tables.
func (s *Step) buildView() {
	c := s.Case
	s.buildTables()
	s.View.K = c.plane(c.KType, c.Shape.KeyDim)
	s.View.V = c.plane(c.VType, c.Shape.ValueDim)
	s.allocate()
}

// buildTables makes page tables of pages in a random order.
func (s *Step) buildTables() {
	c := s.Case
	v := &s.View
	v.NumKVHeads, v.PageSize = c.Shape.NumKVHeads, c.pageSize()
	used := 0
	for _, n := range c.Lens {
		used += (n + v.PageSize - 1) / v.PageSize
	}
	v.NumPages = used + sparePages
	order := rand.New(rand.NewPCG(c.PageSeed, 1)).Perm(v.NumPages)
	for _, n := range c.Lens {
		pages := (n + v.PageSize - 1) / v.PageSize
		t := kv.Table{Pages: make([]kv.PageID, pages+spareEntries), Len: n}
		for i := range t.Pages {
			t.Pages[i] = unusedPage
			if i < pages {
				t.Pages[i] = kv.PageID(order[0])
				order = order[1:]
			}
		}
		v.Seqs = append(v.Seqs, t)
	}
}

// plane is the strides of a plane, without memory.
func (c *Case) plane(t kv.DType, dim int) kv.Plane {
	row, heads, slots := dim+c.Pad, c.Shape.NumKVHeads, c.pageSize()
	p := kv.Plane{Type: t, Dim: dim, PageStride: row * heads * slots}
	if c.Layout == kv.NHD {
		p.HeadStride, p.SlotStride = row, row*heads
	} else {
		p.HeadStride, p.SlotStride = row*slots, row
	}
	return p
}

func (s *Step) allocate() {
	v := &s.View
	kBytes, vBytes := v.K.PageStride*v.K.Type.Bits()/8, v.V.PageStride*v.V.Type.Bits()/8
	if !s.Case.Interleaved {
		v.K.Data, v.V.Data = make([]byte, v.NumPages*kBytes), make([]byte, v.NumPages*vBytes)
		poison(v.K.Data, v.K.Type)
		poison(v.V.Data, v.V.Type)
		return
	}
	if v.K.Type != v.V.Type {
		panic("backendtest: interleaved planes of two types")
	}
	pool := make([]byte, v.NumPages*(kBytes+vBytes))
	poison(pool, v.K.Type)
	v.K.Data, v.V.Data = pool, pool[kBytes:]
	v.K.PageStride += v.V.PageStride
	v.V.PageStride = v.K.PageStride
}

// fillView writes the keys and values that sequences have, and nothing else.
func (s *Step) fillView() {
	key, value := make([]float32, s.View.K.Dim), make([]float32, s.View.V.Dim)
	for i := range s.View.Seqs {
		seq := sequence{s.Case, i}
		for pos := range seq.Len() {
			for head := range s.View.NumKVHeads {
				seq.Key(key, head, pos)
				seq.Value(value, head, pos)
				encode(s.row(&s.View.K, i, head, pos), s.View.K.Type, key)
				encode(s.row(&s.View.V, i, head, pos), s.View.V.Type, value)
			}
		}
	}
}

// row is where a sequence's key or value lies.
func (s *Step) row(p *kv.Plane, seq, head, pos int) []byte {
	page := int(s.View.Seqs[seq].Pages[pos/s.View.PageSize])
	at := page*p.PageStride + head*p.HeadStride + pos%s.View.PageSize*p.SlotStride
	size := p.Type.Bits() / 8
	return p.Data[at*size:][:p.Dim*size]
}

// Plan cuts the step for a backend of this kind.
func (s *Step) Plan(info backend.Info) (*plan.Plan, error) {
	c := s.Case
	cfg := plan.Config{
		NumKVHeads: c.Shape.NumKVHeads,
		GroupSize:  c.Shape.GroupSize(),
		Causal:     c.Options.Causal,
		Window:     c.Options.Window,
		Width:      info.Width,
		NumSplits:  c.NumSplits,
		Invariant:  c.Invariant,
		QueryTile:  info.QueryTile,
		HeadTile:   info.HeadTile,

		MinKeysPerSplit: info.MinKeysPerSplit,
	}
	for i, n := range c.Lens {
		cfg.Seqs = append(cfg.Seqs, plan.Seq{Len: n, NumQueries: c.numQueries(i)})
	}
	return plan.New(cfg)
}

// Launch is the step under a plan, with no place for results yet.
func (s *Step) Launch(p *plan.Plan) *backend.Launch {
	return &backend.Launch{Shape: s.Case.Shape, Options: &s.Case.Options, Plan: p, KV: s.View, Q: s.Q}
}

// references are what [attn.Direct] says of the step, a sequence each.
func (s *Step) references() ([]attn.Reference, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	c := s.Case
	rest := s.Q
	for i := range c.Lens {
		seq := sequence{c, i}
		n := c.numQueries(i) * c.Shape.NumHeads * c.Shape.KeyDim
		ref, err := attn.Direct(c.Shape, &c.Options, i, rest[:n], seq)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
		s.refs = append(s.refs, ref)
	}
	return s.refs, nil
}
