package main

import (
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/plan"
)

// piece is a part of a case: all queries of some sequences, or some queries of one. A
// chunk is what is in memory at a time, and one step of an engine takes a piece of it.
type piece struct {
	seq, seqs      int // first, and how many
	query, queries int
}

const (
	// chunkRoom is what the queries of a chunk, as float32, and their results may take,
	// in bytes: more than most cases have.
	chunkRoom = 32 << 20
	// stepRoom is what a step's plan and partial states may take, in bytes: more
	// than most batches need, and little beside what a process has anyway. Files
	// of many short sequences, or of many queries and forced splits, would take
	// many times their own size.
	stepRoom = 16 << 20
	// planBytes is what a unit of a plan takes, and an item: 64 bytes, as many while
	// the plan is made, and as many until the collector has taken the last one.
	planBytes = 3 * 64
)

// whole is all of the case as one piece.
func (c *decodeCase) whole() piece { return piece{seqs: c.seqs, queries: c.queries} }

// inChunks cuts the case into what is decoded, judged and written before the next
// is read from the file.
func (c *decodeCase) inChunks(room, tile int) []piece {
	return c.cut(c.whole(), c.queries*c.queryBytes(), room, tile)
}

// queryBytes is what a query of all heads takes as float32, and its results.
func (c *decodeCase) queryBytes() int {
	return 4 * c.shape.NumHeads * (c.shape.KeyDim + c.shape.ValueDim + 1)
}

// inSteps cuts a chunk so that a step takes no more than some bytes.
func (c *decodeCase) inSteps(chunk piece, room, splits int, invariant bool, tile int) []piece {
	return c.cut(chunk, c.stepBytes(chunk.queries, splits, invariant, tile), room, tile)
}

// cut cuts a piece whose sequences take some bytes each so that what is left takes no
// more than there is room for, as far as sequences, or the queries of one, can be told
// apart. tile is the most queries of a unit, 0 for all: no unit is cut.
func (c *decodeCase) cut(p piece, bytes, room, tile int) []piece {
	if p.seqs == 0 || p.queries == 0 {
		return []piece{p}
	}
	if bytes <= room || !c.separable() {
		return p.cutSeqs(max(1, room/bytes))
	}
	if tile == 0 {
		tile = p.queries
	}
	queries := room / max(1, bytes/p.queries) / tile * tile
	var pieces []piece
	for _, p := range p.cutSeqs(1) {
		pieces = append(pieces, p.cutQueries(max(tile, queries))...)
	}
	return pieces
}

// stepBytes is what some queries of one sequence take of a step.
func (c *decodeCase) stepBytes(queries, splits int, invariant bool, tile int) int {
	if queries == 0 || len(c.lens) == 0 {
		return 0
	}
	if tile == 0 {
		tile = queries
	}
	longest := slices.Max(c.lens)
	most := 1 // splits of a unit; when the plan chooses, many have few units
	switch {
	case splits > 0:
		most = min(splits, max(longest, 1))
	case invariant:
		most = max(1, longest/plan.InvariantKeys)
	}
	bytes := (queries + tile - 1) / tile * c.shape.NumKVHeads * (1 + most) * planBytes
	if most > 1 { // a state is m, l and o
		bytes += queries * c.shape.NumHeads * most * (2 + c.shape.ValueDim) * 4
	}
	return bytes
}

// separable tells whether a sequence's queries can be computed some at a time. A
// query's position is counted from the last key: where that counts, the keys after
// the last query of a piece have to be hidden from all of them, to be left out.
func (c *decodeCase) separable() bool {
	return c.options.Causal || c.options.Window == 0 && c.options.Slopes == nil
}

func (p piece) cutSeqs(n int) []piece {
	var pieces []piece
	for seq := 0; seq < p.seqs; seq += n {
		pieces = append(pieces, piece{p.seq + seq, min(n, p.seqs-seq), p.query, p.queries})
	}
	return pieces
}

func (p piece) cutQueries(n int) []piece {
	var pieces []piece
	for query := 0; query < p.queries; query += n {
		pieces = append(pieces, piece{p.seq, p.seqs, p.query + query, min(n, p.queries-query)})
	}
	return pieces
}

// heads are some of the KV heads, which a step may take alone.
type heads struct{ first, n int }

// inHeads cuts a step of a single query that takes more than there is room for by its
// KV heads: the rows of each lie together then.
func (c *decodeCase) inHeads(p piece, room, splits int, invariant bool) []heads {
	all := c.shape.NumKVHeads
	bytes := c.stepBytes(p.queries, splits, invariant, p.queries)
	if p.seqs != 1 || p.queries != 1 || bytes <= room {
		return []heads{{0, all}}
	}
	var cut []heads
	for n, first := max(1, all*room/bytes), 0; first < all; first += n {
		cut = append(cut, heads{first, min(n, all-first)})
	}
	return cut
}

// rowsOfHeads is what some KV heads' groups have of a query's rows [NumHeads, dim]; of
// all heads, the rows of any number of queries as they are.
func (c *decodeCase) rowsOfHeads(rows []float32, h heads, dim int) []float32 {
	if h.n == c.shape.NumKVHeads {
		return rows
	}
	group := c.shape.GroupSize() * dim
	return rows[h.first*group:][:h.n*group]
}

// place is which row of an array [seqs, queries, …] of the piece a query has.
func (p piece) place(seq, query int) int { return (seq-p.seq)*p.queries + query - p.query }

// rowsIn is a piece's part of a chunk's array [seqs, queries, NumHeads, dim].
func (c *decodeCase) rowsIn(packed []float32, chunk, p piece, dim int) []float32 {
	query := c.shape.NumHeads * dim
	return packed[chunk.place(p.seq, p.query)*query:][:p.seqs*p.queries*query]
}

// batch is some heads of a piece as an engine plans them.
func (c *decodeCase) batch(p piece, h heads) flashdec.Batch {
	lens := slices.Clone(c.lens[p.seq:][:p.seqs])
	if c.options.Causal {
		for i := range lens {
			lens[i] = max(0, lens[i]-(c.queries-p.query-p.queries))
		}
	}
	options, shape, group := c.options, c.shape, c.shape.GroupSize()
	options.Mask = c.mask(p)
	shape.NumHeads, shape.NumKVHeads = h.n*group, h.n
	if options.Slopes != nil {
		options.Slopes = options.Slopes[h.first*group:][:h.n*group]
	}
	if options.Sinks != nil {
		options.Sinks = options.Sinks[h.first*group:][:h.n*group]
	}
	return flashdec.Batch{Shape: shape, Options: options, Lens: lens, NumQueries: slices.Repeat([]int{p.queries}, p.seqs)}
}

// mask is the rows of the case's mask that belong to a piece.
func (c *decodeCase) mask(p piece) *attn.Mask {
	if c.options.Mask == nil {
		return nil
	}
	m := *c.options.Mask
	first := p.query * m.Keys
	if m.Seqs > 1 {
		first += p.seq * m.Queries * m.Keys
		m.Seqs = p.seqs
	}
	m.Queries = p.queries
	m.Visible = m.Visible[first:][:m.Seqs*m.Queries*m.Keys]
	return &m
}
