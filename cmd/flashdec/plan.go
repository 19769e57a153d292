package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

type planCmd struct {
	Lens      string `required:"" help:"Keys of each sequence: 131072,16x63 is one of 131072 and 63 of 16." placeholder:"LIST"`
	QHeads    int    `help:"Query heads, a multiple of the KV heads (default ${default})." default:"32" placeholder:"N"`
	KVHeads   int    `name:"kv-heads" help:"KV heads (default ${default})." default:"8" placeholder:"N"`
	HeadDim   int    `help:"Elements of a key and of a value (default ${default})." default:"128" placeholder:"N"`
	Width     int    `help:"Processors that work at once (default ${default}, the SMs of an H100; this machine's CPU has ${threads} threads)." default:"132" placeholder:"N"`
	QLen      int    `help:"New queries of each sequence, the last standing at its last key (default ${default})." default:"1" placeholder:"N"`
	Window    int    `help:"How many of the newest keys a query sees. Without it, or with 0, all." placeholder:"N"`
	Causal    bool   `help:"Hide the keys after a query."`
	Splits    int    `help:"Cut every sequence into N splits, as far as it has keys. Without it, or with 0, the plan chooses." placeholder:"N"`
	Invariant bool   `help:"Cut a sequence by its own length alone, whatever is beside it."`
	KVDType   string `name:"kv-dtype" help:"What keys and values are stored as (default ${default}). It counts for the traffic, and for what flashdec tune found." default:"f16" placeholder:"T"`
	tunedFlag
	JSON bool `name:"json" help:"Print one JSON object, with every item."`
}

func (*planCmd) Help() string {
	return `Nothing is computed: a plan follows from lengths alone, and from what flashdec tune
found for this machine's CPU, if it has as many threads as --width says. So it shows
on any machine how any other would be given work: unless told otherwise a GPU, whose
many processors are what splits are for. Processors take an item at a time; where a
CPU's threads take several KV heads of a page together, run may cut sequences into
more splits for that, and says so.

Example, one long sequence among 63 short ones:

    flashdec plan --lens 131072,16x63
`
}

func (cmd *planCmd) Run(t *terminal) error {
	dtype, err := kv.ParseDType(cmd.KVDType)
	if err != nil {
		return fmt.Errorf("--kv-dtype: %w", err)
	}
	p, shape, err := cmd.plan(cmd.tuner(t), dtype)
	if err != nil {
		return err
	}
	r, err := newPlanReport(p, shape)
	if err != nil {
		return err
	}
	r.dtype = dtype
	if cmd.JSON {
		return r.emit(t)
	}
	r.print(t)
	return nil
}

func (cmd *planCmd) plan(u *tuner, dtype kv.DType) (*plan.Plan, attn.Shape, error) {
	shape := attn.Shape{NumHeads: cmd.QHeads, NumKVHeads: cmd.KVHeads, KeyDim: cmd.HeadDim, ValueDim: cmd.HeadDim}
	lens, err := parseLens(cmd.Lens)
	if err != nil {
		return nil, shape, err
	}
	if err := shape.Validate(); err != nil {
		return nil, shape, err
	}
	seqs := make([]plan.Seq, len(lens))
	for i, n := range lens {
		seqs[i] = plan.Seq{Len: n, NumQueries: cmd.QLen}
	}
	var found tuned
	if cmd.Width > 0 && cmd.Width <= maxThreads {
		info := cpu.New(cpu.Options{Threads: cmd.Width}).Info()
		found = u.find(info, cmd.HeadDim, cmd.HeadDim, shape.GroupSize(), [2]kv.DType{dtype, dtype})
	}
	p, err := plan.New(plan.Config{
		Seqs: seqs, NumKVHeads: shape.NumKVHeads, GroupSize: shape.GroupSize(),
		Causal: cmd.Causal, Window: cmd.Window, Width: cmd.Width,
		NumSplits: cmd.Splits, Invariant: cmd.Invariant,
		MinKeysPerSplit: found.MinKeysPerSplit, MinKeysSource: found.source(),
	})
	return p, shape, err
}

// planReport is what plan prints.
type planReport struct {
	Sequences  int         `json:"sequences"`
	QHeads     int         `json:"q_heads"`
	KVHeads    int         `json:"kv_heads"`
	HeadDim    int         `json:"head_dim"`
	Width      int         `json:"width"`
	Units      int         `json:"units"`
	NumItems   int         `json:"num_items"`
	Reason     string      `json:"reason"`
	KeysRead   int         `json:"keys_read"`  // by all items
	StateRows  int         `json:"state_rows"` // partial states to merge
	MaxLoad    int         `json:"max_load"`   // of the busiest processor
	UncutLoad  int         `json:"uncut_load"` // the same, were nothing cut
	Balance    float64     `json:"balance"`    // mean load / highest
	Work       []workKind  `json:"work"`       // units alike in everything but their place
	Processors []processor `json:"processors"`

	dtype kv.DType
	plan  *plan.Plan
	who   []int32 // [items] the processor that takes it
}

// planItem is one item and the processor that takes it.
type planItem struct {
	Seq       int `json:"seq"`
	Head      int `json:"head"`
	Query     int `json:"query"`
	Queries   int `json:"queries"`
	Begin     int `json:"begin"`
	End       int `json:"end"`
	Processor int `json:"processor"`
}

func newPlanReport(p *plan.Plan, shape attn.Shape) (*planReport, error) {
	r := &planReport{
		Sequences: len(p.Config.Seqs), QHeads: shape.NumHeads, KVHeads: shape.NumKVHeads, HeadDim: shape.KeyDim,
		Width: p.Config.Width, Units: len(p.Units), NumItems: len(p.Items), Reason: p.Reason, StateRows: p.Rows,
		Balance: p.Balance(), Work: workKinds(p), plan: p, who: make([]int32, len(p.Items)),
	}
	lists := p.Assign()
	r.Processors, r.MaxLoad = shares(p, lists)
	for who, list := range lists {
		r.KeysRead += r.Processors[who].Keys
		for _, i := range list {
			r.who[i] = int32(who)
		}
	}
	if r.UncutLoad = r.MaxLoad; p.MaxSplits() < 2 {
		return r, nil
	}
	cfg := p.Config
	cfg.NumSplits = 1
	uncut, err := plan.New(cfg)
	if err != nil {
		return nil, err
	}
	_, r.UncutLoad = shares(uncut, uncut.Assign())
	return r, nil
}

// shares is what each processor does with its list of items, and the load of the
// busiest.
func shares(p *plan.Plan, lists [][]int) (processors []processor, most int) {
	processors = make([]processor, len(lists))
	for i, list := range lists {
		who := &processors[i]
		for _, item := range list {
			who.Load += p.Work(p.Items[item])
			who.Keys += p.Items[item].End - p.Items[item].Begin
			who.Items++
		}
		most = max(most, who.Load)
	}
	return processors, most
}

// emit writes the report as one JSON object with a last field items, in the order
// that they start in. There may be millions: they are written as they are made.
func (r *planReport) emit(t *terminal) error {
	object, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// The buffered writer keeps the first error until it is flushed.
	_, _ = t.out.Write(bytes.TrimSuffix(object, []byte("}")))
	before := `,"items":[`
	for i, it := range r.plan.Items {
		item, err := json.Marshal(planItem{it.Seq, it.Head, it.Query, it.NumQueries, it.Begin, it.End, int(r.who[i])})
		if err != nil {
			return err
		}
		t.printf("%s%s", before, item)
		before = ","
	}
	if len(r.plan.Items) == 0 {
		t.printf("%s", before)
	}
	t.printf("]}\n")
	return t.flush()
}

// Widths of the report.
const (
	maxKinds = 16 // lines of the work list
	maxBars  = 16 // processors that get a line each
)

func (r *planReport) print(t *terminal) {
	t.printf("%s, %s on %s, head dim %d\n",
		count(r.Sequences, "sequence"), count(r.QHeads, "query head"), count(r.KVHeads, "KV head"), r.HeadDim)
	t.printf("%s (sequence × KV head) → %s for %s (--width)\n",
		count(r.Units, "unit"), count(r.NumItems, "item"), count(r.Width, "processor"))
	t.printf("why: %s\n\n", fold(r.Reason, 5))
	r.printWork(t)
	r.printProcessors(t)
	t.printf("\nbalance  %.1f%% (mean load of a processor / highest)\n", 100*r.Balance)
	if r.MaxLoad > 0 {
		t.printf("uncut    the busiest processor would have %.1f times the load\n", float64(r.UncutLoad)/float64(r.MaxLoad))
	}
	kvBytes, stateBytes := r.KeysRead*2*r.dtype.RowBytes(r.HeadDim), r.StateRows*(r.HeadDim+2)*4
	t.printf("traffic  %s of KV in %s, %s of partial states written\n", byteCount(kvBytes), r.dtype, byteCount(stateBytes))
}

func (r *planReport) printWork(t *terminal) {
	table := newTable("splits", "units", "keys a split", "key range", "queries", "sequences")
	for i, k := range r.Work {
		if i == maxKinds {
			break
		}
		table.AppendRow(row(k.Splits, k.Units, k.keysASplit(), k.keyRange(), k.Queries, k.sequences()))
	}
	t.printf("%s\n", render(table))
	if more := len(r.Work) - maxKinds; more > 0 {
		t.printf("… and %d more kinds of unit (all of them with --json)\n", more)
	}
}
