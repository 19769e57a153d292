package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/plan"
)

// explained is one row of a file's attention, taken apart.
type explained struct {
	File       string        `json:"file"`
	Seq        int           `json:"seq"`
	Head       int           `json:"head"`
	KVHead     int           `json:"kv_head"`
	Query      int           `json:"query"`
	Position   int           `json:"position"` // the query's, among the keys
	Keys       int           `json:"keys"`
	Visible    int           `json:"visible"`
	Scale      float64       `json:"scale"`
	MinScore   number        `json:"min_score"`
	MeanScore  number        `json:"mean_score"`
	MaxScore   number        `json:"max_score"`
	MaxKey     int           `json:"max_key"`
	NaNKey     int           `json:"nan_key"`      // the first whose score is NaN; -1 for none
	Traced     int           `json:"traced_split"` // the split in which the maximum grew most often; -1 for none
	Grew       int           `json:"maximum_grew"` // times, in that split
	Steps      []traceStep   `json:"steps"`        // of it: the first, the last, and where the maximum grew
	States     []stateReport `json:"states"`
	Sink       *number       `json:"sink,omitempty"`
	M          number        `json:"m"`
	L          number        `json:"l"`
	LSE        number        `json:"lse"`
	Out        []number      `json:"out"`
	DirectLSE  number        `json:"direct_lse"`
	DirectOut  []number      `json:"direct_out"`
	Difference number        `json:"difference"` // largest, over out and lse
	OK         bool          `json:"ok"`

	limit float64 // of Difference
	maxV  float64 // the largest finite |v| that the row sees
}

// rowLimit is how far the merge and the direct form may lie apart, in float64,
// relative to the largest |v| and |lse|: sums of up to millions of terms, each
// with a rounding of 2⁻⁵³.
const rowLimit = 1e-9

func (cmd *explainCmd) explainFile(i *interrupt, t *terminal) (err error) {
	c, err := openCase(context.Background(), cmd.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	c.warn(t)
	if err := cmd.checkPage(i); err != nil {
		return err
	}
	x, r, err := cmd.explain(c)
	if err != nil {
		return err
	}
	if cmd.HTML != "" {
		err = cmd.writePage(i, t, filePage(c, x, r))
	}
	switch {
	case err != nil:
		return err
	case cmd.JSON:
		err = t.emit(x)
	case cmd.HTML == "":
		x.print(t, c)
	}
	if err == nil && !x.OK {
		err = errCheckFailed
	}
	return err
}

// rowOf checks which row is asked for.
func (cmd *explainCmd) rowOf(c *decodeCase) (query int, err error) {
	query = c.queries - 1
	if cmd.Query != nil {
		query = *cmd.Query
	}
	for _, f := range [...]struct {
		flag, many string
		got, have  int
	}{{"seq", "sequences", cmd.Seq, c.seqs}, {"head", "query heads", cmd.Head, c.shape.NumHeads}, {"query", "queries", query, c.queries}} {
		if f.have == 0 {
			return 0, fmt.Errorf("%s: the file has no %s, so there is nothing to explain", c.path, f.many)
		}
		if f.got < 0 || f.got >= f.have {
			return 0, fmt.Errorf("%s: --%s is %d, but the file has %d %s, counted from 0", c.path, f.flag, f.got, f.have, f.many)
		}
	}
	if cmd.Splits < 0 {
		return 0, fmt.Errorf("--splits is %d, want at least 1, or 0 for %d", cmd.Splits, explainedSplits)
	}
	return query, nil
}

// explain takes the row apart that is asked for.
func (cmd *explainCmd) explain(c *decodeCase) (*explained, *fileRow, error) {
	query, err := cmd.rowOf(c)
	if err != nil {
		return nil, nil, err
	}
	kvHead := cmd.Head / c.shape.GroupSize()
	r := newFileRow(c, cmd.Seq, cmd.Head, query)
	x := &explained{
		File: c.path, Seq: cmd.Seq, Head: cmd.Head, KVHead: kvHead, Query: query, Position: r.position, Keys: r.keys.Len(),
		Scale: c.options.ScaleFor(c.shape.KeyDim), MaxKey: -1, NaNKey: -1, Traced: -1, Steps: []traceStep{}, States: []stateReport{},
	}
	splits, err := r.splits(cmp.Or(cmd.Splits, explainedSplits))
	if err != nil {
		return nil, nil, err
	}
	x.take(r, splits)
	return x, r, x.compare(r)
}

// explainable is a query row that can be taken apart.
type explainable interface {
	score(begin, end int) []scored // the visible keys of [begin, end)
	value(pos int) []float64       // until the next call
	valueDim() int
	sinkLogit() *float32 // or nil
	direct() (lse float64, out []float64, err error)
}

// take computes the row the FlashDecoding way: scores, a state a split, the merge.
func (x *explained) take(r explainable, splits []plan.Item) {
	states := make([]attn.State[float64], len(splits), len(splits)+1)
	x.MinScore, x.MaxScore = number(math.Inf(1)), number(math.Inf(-1))
	sum := 0.0
	for i, split := range splits {
		keys := r.score(split.Begin, split.End)
		for _, key := range keys {
			sum += key.score
			x.MinScore = min(x.MinScore, number(key.score))
			if s := number(key.score); s > x.MaxScore {
				x.MaxScore, x.MaxKey = s, key.pos
			}
			if math.IsNaN(key.score) && x.NaNKey < 0 {
				x.NaNKey = key.pos
			}
		}
		trace := trace{n: len(keys)}
		states[i] = walk(keys, r.valueDim(), x.watched(r.value), trace.see)
		if len(keys) > 0 && (x.Traced < 0 || trace.grew > x.Grew) {
			x.Traced, x.Grew, x.Steps = i, trace.grew, trace.steps
		}
		x.Visible += len(keys)
		x.States = append(x.States, stateReport{Split: i, Begin: split.Begin, End: split.End, Keys: len(keys)})
	}
	x.MeanScore = number(sum / float64(max(x.Visible, 1)))
	if logit := r.sinkLogit(); logit != nil {
		states = append(states, attn.SinkState[float64](*logit))
		sink := number(*logit)
		x.Sink = &sink
	}
	merged := attn.Empty[float64](r.valueDim())
	attn.Merge(&merged, states...)
	for i := range x.States {
		x.States[i].place(states[i], merged)
	}
	x.M, x.L, x.LSE, x.Out = number(merged.M), number(merged.L), number(merged.LSE()), numbers(merged.O)
}

// watched is value, and notes how large values are: what an average of them may be
// off by grows with the values, not with an average in which they cancel.
func (x *explained) watched(value func(pos int) []float64) func(pos int) []float64 {
	return func(pos int) []float64 {
		v := value(pos)
		for _, e := range v {
			if a := math.Abs(e); a > x.maxV && !math.IsInf(a, 0) {
				x.maxV = a
			}
		}
		return v
	}
}

// trace keeps the steps of a recurrence over n keys that are worth showing: the
// first three, the last, those at which the maximum grew, and that at which it became
// NaN.
type trace struct {
	n, seen, grew int
	nan           bool // the maximum is
	steps         []traceStep
}

func (t *trace) see(key scored, s *attn.State[float64], grew bool) {
	t.seen++
	if grew && t.seen > 1 {
		t.grew++
	}
	spoiled := math.IsNaN(s.M) && !t.nan
	t.nan = t.nan || spoiled
	if t.seen <= 3 || t.seen == t.n || grew && t.grew <= maxGrowths || spoiled {
		t.steps = append(t.steps, stepOf(key, s, grew && t.seen > 1))
	}
}

// maxGrowths bounds the steps shown for the growth of the maximum, which hostile
// or sorted scores grow at every key.
const maxGrowths = 6

// compare puts the direct softmax beside the merge.
func (x *explained) compare(r explainable) error {
	lse, out, err := r.direct()
	if err != nil {
		return err
	}
	x.DirectLSE, x.DirectOut = number(lse), numbers(out)
	mine := make([]float64, len(x.Out))
	for i, o := range x.Out {
		mine[i] = float64(o)
	}
	scale := max(1, x.maxV)
	if a := math.Abs(lse); !math.IsInf(a, 0) && !math.IsNaN(a) {
		scale = max(scale, a)
	}
	difference := math.Max(furthest(mine, out), furthest([]float64{float64(x.LSE)}, []float64{lse}))
	x.Difference, x.limit = number(difference), rowLimit*scale
	x.OK = difference <= x.limit
	return nil
}

// fileRow is one query row of a case.
type fileRow struct {
	c          *decodeCase
	part       part
	head       int // query head
	query      int
	position   int
	keys       *fileHead
	q          []float32
	sink       *float32
	dim        int
	key, fetch []float32 // one key, one value
	wide       []float64
}

func newFileRow(c *decodeCase, seq, head, query int) *fileRow {
	p := part{seq, head / c.shape.GroupSize()}
	r := &fileRow{
		c: c, part: p, head: head, query: query, position: c.lens[seq] - c.queries + query, keys: c.head(p.seq, p.head),
		q:   c.queriesOf(piece{seq, 1, query, 1})[head*c.shape.KeyDim:][:c.shape.KeyDim],
		dim: c.shape.ValueDim, key: make([]float32, c.shape.KeyDim),
		fetch: make([]float32, c.shape.ValueDim), wide: make([]float64, c.shape.ValueDim),
	}
	if c.options.Sinks != nil {
		r.sink = &c.options.Sinks[head]
	}
	return r
}

func (r *fileRow) valueDim() int       { return r.dim }
func (r *fileRow) sinkLogit() *float32 { return r.sink }

// splits are the pieces that an engine would cut the row's keys into.
func (r *fileRow) splits(n int) ([]plan.Item, error) {
	p, err := plan.New(plan.Config{
		Seqs: []plan.Seq{{Len: r.keys.Len(), NumQueries: r.c.queries}}, NumKVHeads: 1, GroupSize: 1,
		Causal: r.c.options.Causal, Window: r.c.options.Window, Width: 1, NumSplits: n, QueryTile: 1,
	})
	if err != nil {
		return nil, r.c.named(err)
	}
	unit := -1
	for i, u := range p.Units {
		if u.Query == r.query {
			unit = i
		}
	}
	splits := make([]plan.Item, p.Units[unit].NumSplits)
	for _, it := range p.Items {
		if it.Unit == unit {
			splits[place(it, p.Units[unit])] = it
		}
	}
	return splits, nil
}

// place is which of its unit's splits an item is.
func place(it plan.Item, u plan.Unit) int {
	if it.Row == plan.Whole {
		return 0
	}
	return (it.Row - u.Row) / it.NumQueries
}

// score is the visible keys of [begin, end) with their scores.
func (r *fileRow) score(begin, end int) []scored {
	o := &r.c.options
	scale := o.ScaleFor(r.c.shape.KeyDim)
	var keys []scored
	for pos := begin; pos < end; pos++ {
		if !o.Sees(r.part.seq, r.keys.Len(), r.c.queries, r.query, pos) {
			continue
		}
		r.keys.Key(r.key, 0, pos)
		qk := 0.0
		for d, x := range r.key {
			qk += float64(r.q[d]) * float64(x)
		}
		keys = append(keys, scored{pos, o.Score(qk, scale, r.head, pos-r.position)})
	}
	return keys
}

// value is the value at a position, until the next call.
func (r *fileRow) value(pos int) []float64 {
	r.keys.Value(r.fetch, 0, pos)
	for d, v := range r.fetch {
		r.wide[d] = float64(v)
	}
	return r.wide
}

// direct is the row of the direct softmax (derivation 2.6), by package attn.
func (r *fileRow) direct() (lse float64, out []float64, err error) {
	group := r.c.shape.GroupSize()
	q := r.c.queriesOf(piece{r.part.seq, 1, r.query, 1})[r.part.head*group*r.c.shape.KeyDim:][:group*r.c.shape.KeyDim]
	ref, err := r.c.direct(context.Background(), block{r.part, r.query, 1}, q, r.c.fromFile) // explain is abandoned, not cancelled
	if err != nil {
		return 0, nil, r.c.named(err)
	}
	i := r.head % group
	return ref.LSE[i], ref.Out[i*r.dim:][:r.dim], nil
}
