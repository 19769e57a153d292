package plan_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/plan"
)

func TestNewRefuses(t *testing.T) {
	good := plan.Config{Seqs: lens(100, 200), NumKVHeads: 2, GroupSize: 4, Width: 8}
	for _, tc := range []struct {
		change func(*plan.Config)
		kind   error
		text   string // what the error says of got and want
	}{
		{func(c *plan.Config) { c.NumKVHeads = 0 }, attn.ErrShape, "number of KV heads is 0, want 1 to"},
		{func(c *plan.Config) { c.GroupSize = -1 }, attn.ErrShape, "group size is -1, want 1 to"},
		{func(c *plan.Config) { c.GroupSize = math.MaxInt }, attn.ErrShape, fmt.Sprintf("group size is %d", math.MaxInt)},
		{func(c *plan.Config) { c.Width = 0 }, attn.ErrOption, "width is 0, want 1 to"},
		{func(c *plan.Config) { c.Width = math.MaxInt }, attn.ErrOption, "want 1 to"},
		{func(c *plan.Config) { c.Window = -1 }, attn.ErrOption, "window is -1, want at least 0"},
		{func(c *plan.Config) { c.NumSplits = -2 }, attn.ErrOption, "number of splits is -2, want at least 0"},
		{func(c *plan.Config) { c.QueryTile = -3 }, attn.ErrOption, "query tile is -3, want at least 0"},
		{func(c *plan.Config) { c.HeadTile = -1 }, attn.ErrOption, "head tile is -1, want at least 0"},
		{func(c *plan.Config) { c.MinKeysPerSplit = -1 }, attn.ErrOption, "least number of keys per split is -1, want 32 to"},
		{func(c *plan.Config) { c.MinKeysPerSplit = 31 }, attn.ErrOption, "least number of keys per split is 31, want 32 to"},
		{func(c *plan.Config) { c.MinKeysPerSplit = math.MaxInt }, attn.ErrOption, "want 32 to"},
		{func(c *plan.Config) { c.Seqs[1].Len = -1 }, attn.ErrShape, "sequence 1 has -1 keys, want 0 to"},
		{func(c *plan.Config) { c.Seqs[1].Len = math.MaxInt }, attn.ErrShape, fmt.Sprintf("sequence 1 has %d keys", math.MaxInt)},
		{func(c *plan.Config) { c.Seqs[0].NumQueries = -1 }, attn.ErrShape, "sequence 0 has -1 queries, want 0 to"},
		{func(c *plan.Config) { c.Seqs[0].NumQueries = math.MaxInt }, attn.ErrShape, fmt.Sprintf("sequence 0 has %d queries", math.MaxInt)},
		{func(c *plan.Config) { c.Seqs[0].NumQueries, c.GroupSize = 1<<30, 1<<20 }, attn.ErrShape, "query rows"},
		{func(c *plan.Config) { c.Seqs[0].NumQueries, c.QueryTile = 1<<30, 1 }, attn.ErrShape, "units"},
		{func(c *plan.Config) { c.NumKVHeads, c.Seqs = 1<<20, equal(17, 1) }, attn.ErrShape, "units"},
		{func(c *plan.Config) { c.GroupSize, c.Seqs[1].NumQueries = 1<<20, 1<<30 }, attn.ErrShape, "sequence 1 has 1125899906842624 query rows"},
		{func(c *plan.Config) { c.Seqs[0].Len, c.NumSplits = 1<<24, math.MaxInt }, attn.ErrShape, "items, want at most"},
		{func(c *plan.Config) {
			c.Seqs[0] = plan.Seq{Len: 1 << min(40, strconv.IntSize-6), NumQueries: 1 << min(30, strconv.IntSize-12)}
		}, attn.ErrShape, "keys × query rows"},
		{func(c *plan.Config) {
			c.Seqs[0], c.NumSplits = plan.Seq{Len: 1 << 10, NumQueries: 1 << min(30, strconv.IntSize-18)}, 1<<10
		}, attn.ErrShape, "rows of partial states, want at most"},
	} {
		cfg := good
		cfg.Seqs = lens(100, 200)
		tc.change(&cfg)
		_, err := plan.New(cfg)
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("error %v, want %v with %q", err, tc.kind, tc.text)
		}
	}
}

// TestLargestWindow is a window that would overflow beside a query that stands
// before the first key.
func TestLargestWindow(t *testing.T) {
	p := mustNew(t, plan.Config{
		Seqs: []plan.Seq{{Len: 5, NumQueries: 9}}, NumKVHeads: 1, GroupSize: 1,
		Width: 1, Window: math.MaxInt, QueryTile: math.MaxInt,
	})
	if u := p.Units[0]; u.Begin != 0 || u.End != 5 {
		t.Errorf("keys [%d, %d), want all 5", u.Begin, u.End)
	}
}

// TestPlanKeepsItsSeqs changes the caller's slice after planning.
func TestPlanKeepsItsSeqs(t *testing.T) {
	seqs := lens(100)
	p := mustNew(t, plan.Config{Seqs: seqs, NumKVHeads: 1, GroupSize: 1, Width: 1})
	seqs[0].Len = 1
	if p.Config.Seqs[0].Len != 100 {
		t.Error("the plan follows the caller's slice")
	}
}

// TestCheckSees breaks a plan in each way that Check must see.
func TestCheckSees(t *testing.T) {
	for name, spoil := range map[string]func(p *plan.Plan){
		"a key twice":     func(p *plan.Plan) { p.Items[1].Begin-- },
		"a key left out":  func(p *plan.Plan) { p.Items[1].End-- },
		"an item twice":   func(p *plan.Plan) { p.Items[1] = p.Items[0] },
		"an item less":    func(p *plan.Plan) { p.Items = p.Items[1:] },
		"another head":    func(p *plan.Plan) { p.Items[0].Head++ },
		"a shared row":    func(p *plan.Plan) { p.Units[1].Row = p.Units[0].Row },
		"a row between":   func(p *plan.Plan) { p.Items[0].Row++ },
		"too few rows":    func(p *plan.Plan) { p.Rows-- },
		"an item more":    func(p *plan.Plan) { p.Items = append(p.Items, p.Items[0]) },
		"an empty item":   func(p *plan.Plan) { p.Items[0].End, p.Items[1].Begin = p.Items[0].Begin, p.Items[0].Begin },
		"one key less":    func(p *plan.Plan) { p.Items[0].Begin++; p.Units[p.Items[0].Unit].Begin++ },
		"an unknown unit": func(p *plan.Plan) { p.Items[0].Unit = len(p.Units) },
	} {
		p := mustNew(t, plan.Config{Seqs: lens(100, 200), NumKVHeads: 2, GroupSize: 4, Width: 8, NumSplits: 3})
		spoil(p)
		if p.Check() == nil {
			t.Errorf("Check passes %s", name)
		}
	}
}

// TestCheckSeesEveryField changes each number of a plan's items and units, and
// Check must see each: what a backend reads of a plan is all there is.
func TestCheckSeesEveryField(t *testing.T) {
	cfg := plan.Config{
		Seqs:       []plan.Seq{{Len: 1000, NumQueries: 5}, {Len: 0, NumQueries: 1}, {Len: 40, NumQueries: 2}},
		NumKVHeads: 2, GroupSize: 3, Width: 5, Causal: true, Window: 900, QueryTile: 2,
	}
	p := mustNew(t, cfg)
	tried := 0
	try := func(what string, x *int) {
		was := *x
		for _, to := range []int{-1, 0, 1, 7, was - 1, was + 1, was * 2, math.MaxInt, math.MinInt} {
			if *x = to; to != was && p.Check() == nil {
				t.Errorf("Check passes %s %d in place of %d", what, to, was)
			}
			tried++
		}
		*x = was
	}
	fields := func(what string, x any) {
		v := reflect.ValueOf(x).Elem()
		for i := range v.NumField() {
			try(what+"."+v.Type().Field(i).Name, v.Field(i).Addr().Interface().(*int))
		}
	}
	for i := range p.Items {
		fields("item", &p.Items[i])
	}
	for i := range p.Units {
		fields("unit", &p.Units[i])
	}
	try("rows", &p.Rows)
	for i := range p.Config.Seqs {
		fields("sequence", &p.Config.Seqs[i])
	}
	try("KV heads", &p.Config.NumKVHeads)
	try("group size", &p.Config.GroupSize)
	if err := p.Check(); err != nil || tried < 1000 {
		t.Errorf("%d changes tried, and at last: %v", tried, err)
	}
}

// TestCheckSeesOrder: a plan that starts its items in another order is another
// plan, and one that only looks like a plan is none.
func TestCheckSeesOrder(t *testing.T) {
	cfg := plan.Config{Seqs: lens(100, 200), NumKVHeads: 2, GroupSize: 4, Width: 8, NumSplits: 3}
	p := mustNew(t, cfg)
	p.Items[0], p.Items[1] = p.Items[1], p.Items[0]
	copied := mustNew(t, cfg)
	copied = &plan.Plan{Config: copied.Config, Items: copied.Items, Units: copied.Units, Rows: copied.Rows}
	for name, p := range map[string]*plan.Plan{"two items swapped": p, "a copy by hand": copied, "nil": nil, "zero": {}} {
		if err := p.Check(); !errors.Is(err, attn.ErrShape) {
			t.Errorf("%s: %v, want ErrShape", name, err)
		}
	}
}

// TestCheckBoundsRows: a plan that was changed throughout, so that all of it agrees
// on more rows than New would allow, is none.
func TestCheckBoundsRows(t *testing.T) {
	for _, side := range []int{2, 1 << (13 + 7*(bits.UintSize/64))} {
		p := mustNew(t, plan.Config{Seqs: lens(2), NumKVHeads: 1, GroupSize: 1, Width: 1, NumSplits: 2})
		p.Config.Seqs[0].NumQueries, p.Config.GroupSize = side, side
		p.Units[0].NumQueries, p.Rows = side, 2*side*side
		for i := range p.Items {
			p.Items[i].NumQueries, p.Items[i].Row = side, i*side*side
		}
		if err := p.Check(); (err == nil) != (side == 2) {
			t.Errorf("%d rows: %v", p.Rows, err)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	p := mustNew(t, plan.Config{Seqs: equal(8, 4096), NumKVHeads: 8, GroupSize: 4, Width: 132})
	if n := testing.AllocsPerRun(10, func() { _ = p.Check() }); n != 0 {
		t.Errorf("Check allocates %v times", n)
	}
}

func TestMaxSplits(t *testing.T) {
	cfg := plan.Config{NumKVHeads: 2, GroupSize: 1, Width: 1, NumSplits: 5}
	for want, lens := range map[int][]int{0: {0}, 3: {3, 0, 2}, 5: {3, 100}} {
		cfg.Seqs = nil
		for _, n := range lens {
			cfg.Seqs = append(cfg.Seqs, plan.Seq{Len: n, NumQueries: 1})
		}
		p, err := plan.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MaxSplits(); got != want {
			t.Errorf("lengths %v: at most %d splits, want %d", lens, got, want)
		}
	}
}
