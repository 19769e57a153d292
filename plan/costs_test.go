package plan

import (
	"math/rand/v2"
	"testing"
)

// costed is a sequence of n keys on an H200: 128 of its multiprocessors.
func costed(n, heads, saturating, merge int) Config {
	return Config{
		Seqs: []Seq{{Len: n, NumQueries: 1}}, NumKVHeads: heads, GroupSize: 4, Width: 128, StartKeys: 256, QueryTile: 16,
		Saturating: saturating, MergeKeys: merge,
	}
}

// TestMergesCost: where half of the processors read nearly as fast, a step is cut for them
// if that saves more than the rest of the rate; where the read takes long, all are busy.
func TestMergesCost(t *testing.T) {
	for _, c := range []struct{ n, heads, saturating, merge, want int }{
		{4096, 8, 0, 0, 16},
		{4096, 8, 68, 7, 8},
		{1024, 8, 68, 7, 8}, // 128 keys a split is the least
		{16384, 8, 68, 7, 8},
		{4096, 32, 68, 7, 2},
		{65536, 8, 68, 7, 16},
		{1 << 19, 8, 0, 0, 32}, // processors that are not equally fast
		{1 << 19, 8, 68, 7, 16},
		{65536, 2, 68, 7, 32},
		{131072, 2, 68, 7, 64}, // merges in bands cost little more
	} {
		p, err := New(costed(c.n, c.heads, c.saturating, c.merge))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Units[0].NumSplits; got != c.want {
			t.Errorf("%d keys of %d heads, %d processors saturate, %d keys a merge: %d splits, want %d", c.n, c.heads, c.saturating, c.merge, got, c.want)
		}
	}
}

// TestHalfIsForShortItems: half of the processors read as fast as all only up to some
// length of an item.
func TestHalfIsForShortItems(t *testing.T) {
	for _, c := range []struct{ n, heads, short, want int }{
		{16384, 8, 2560, 8},
		{20480, 8, 2560, 8},
		{20481, 8, 2560, 16},
		{24576, 8, 2560, 16},
		{24576, 8, 0, 8},
		{24576, 4, 2560, 16},
		{32769, 8, 2560, 16},
		{49152, 4, 2560, 32},
		{4096, 8, 1, 16},
	} {
		cfg := costed(c.n, c.heads, 68, 7)
		cfg.SaturatingKeys = c.short
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Units[0].NumSplits; got != c.want {
			t.Errorf("%d keys of %d heads, few processors read %d keys as fast: %d splits, want %d", c.n, c.heads, c.short, got, c.want)
		}
	}
}

// TestHalfIsForEvenSteps: processors that share a way to the memory do not read faster
// than all of them, so long items beside short ones are cut for all.
func TestHalfIsForEvenSteps(t *testing.T) {
	cfg := costed(131072, 8, 68, 7)
	for range 63 {
		cfg.Seqs = append(cfg.Seqs, Seq{Len: 1024, NumQueries: 1})
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Saturating, cfg.MergeKeys = 0, 0
	free, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Units[0].NumSplits, free.Units[0].NumSplits; got < want/2 {
		t.Errorf("128K keys beside 63 of 1K in %d splits, without costs in %d", got, want)
	}
}

// TestCostsKeepThePlanWhole: whatever the costs, all keys are planned once, and costs of
// nothing change nothing.
func TestCostsKeepThePlanWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	for range 200 {
		cfg := costed(rng.IntN(50000), 1+rng.IntN(40), rng.IntN(129), rng.IntN(LeastKeysPerSplit+1))
		for range rng.IntN(40) {
			cfg.Seqs = append(cfg.Seqs, Seq{Len: rng.IntN(9000), NumQueries: 1 + rng.IntN(3)})
		}
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatalf("%+v: %v", cfg, err)
		}
		free, all := cfg, cfg
		free.Saturating, free.MergeKeys = 0, 0
		all.Saturating, all.MergeKeys = cfg.Width, 0
		a, err := New(free)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(all)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Units {
			if a.Units[i].NumSplits != b.Units[i].NumSplits {
				t.Fatalf("unit %d has %d splits, and %d where all processors saturate", i, a.Units[i].NumSplits, b.Units[i].NumSplits)
			}
		}
	}
}
