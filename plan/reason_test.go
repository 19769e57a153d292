package plan_test

import (
	"slices"
	"testing"

	"github.com/flashdec/flashdec/plan"
)

func TestReason(t *testing.T) {
	for _, tc := range []struct {
		cfg  plan.Config
		want string
	}{
		{
			plan.Config{Seqs: lens(131072), NumKVHeads: 8, Width: 132},
			"1 sequence of 131072 keys × 8 KV heads gives 8 units for 132 processors; cut into 33 splits each: 264 items of 3968 to 4000 keys",
		},
		{
			plan.Config{Seqs: lens(1475), NumKVHeads: 3, Width: 2, HeadTile: 8},
			"1 sequence of 1475 keys × 3 KV heads gives 3 units for 2 processors; cut into 4 splits each, for processors that take 3 KV heads together: 12 items of 323 to 384 keys",
		},
		{ // taken together, they cut nothing that apart would be uncut
			plan.Config{Seqs: equal(64, 2048), NumKVHeads: 8, Width: 2, HeadTile: 8},
			"64 sequences of 2048 keys × 8 KV heads give 512 units for 2 processors; uncut, since no cut ends sooner by more than 2%: 512 items of 2048 keys",
		},
		{ // taken together, they change nothing
			plan.Config{Seqs: lens(100), NumKVHeads: 3, Width: 2, HeadTile: 8},
			"1 sequence of 100 keys × 3 KV heads gives 3 units for 2 processors; uncut, since a split has at least 128 keys: 3 items of 100 keys",
		},
		{
			plan.Config{Seqs: equal(64, 2048), NumKVHeads: 8, Width: 2},
			"64 sequences of 2048 keys × 8 KV heads give 512 units for 2 processors; uncut, since no cut ends sooner by more than 2%: 512 items of 2048 keys",
		},
		{
			plan.Config{Seqs: lens(0, 100, 16), NumKVHeads: 1, Width: 8},
			"2 sequences of 16 to 100 keys (1 more without a key) × 1 KV head give 2 units for 8 processors; uncut, since a split has at least 128 keys: 2 items of 16 to 100 keys",
		},
		{
			plan.Config{Seqs: lens(4096), NumKVHeads: 1, Width: 8, MinKeysPerSplit: 1024, MinKeysSource: "tuned on 2026-11-30"},
			"1 sequence of 4096 keys × 1 KV head gives 1 unit for 8 processors; cut into 4 splits each (a split has at least 1024 keys, tuned on 2026-11-30): 4 items of 1024 keys",
		},
		{
			plan.Config{Seqs: lens(2047), NumKVHeads: 1, Width: 8, MinKeysPerSplit: 1024},
			"1 sequence of 2047 keys × 1 KV head gives 1 unit for 8 processors; uncut, since a split has at least 1024 keys (as given): 1 item of 2047 keys",
		},
		{
			plan.Config{Seqs: lens(4096), NumKVHeads: 1, Width: 8, MinKeysPerSplit: 1024, Invariant: true},
			"1 sequence of 4096 keys × 1 KV head gives 1 unit for 8 processors; cut by their own keys alone into 16 splits each: 16 items of 256 keys",
		},
		{
			plan.Config{Seqs: lens(100), NumKVHeads: 1, Width: 8, NumSplits: 7},
			"1 sequence of 100 keys × 1 KV head gives 1 unit for 8 processors; cut into the 7 splits asked for: 7 items of 14 to 15 keys",
		},
		{
			plan.Config{Seqs: lens(100, 3), NumKVHeads: 1, Width: 8, NumSplits: 7},
			"2 sequences of 3 to 100 keys × 1 KV head give 2 units for 8 processors; cut into the 7 splits asked for, as far as there are keys: 10 items of 1 to 15 keys",
		},
		{
			plan.Config{Seqs: lens(4096), NumKVHeads: 8, Width: 2, Invariant: true},
			"1 sequence of 4096 keys × 8 KV heads gives 8 units for 2 processors; cut by their own keys alone into 8 splits each: 64 items of 512 keys",
		},
		{
			plan.Config{Seqs: []plan.Seq{{Len: 100, NumQueries: 3}}, NumKVHeads: 2, Width: 1, QueryTile: 2},
			"1 sequence of 100 keys in 2 query tiles × 2 KV heads gives 4 units for 1 processor; uncut, since a split has at least 128 keys: 4 items of 100 keys",
		},
		{ // how long the sequences are, and what a step sees of them
			plan.Config{Seqs: []plan.Seq{{Len: 777, NumQueries: 5}, {Len: 300, NumQueries: 5}}, NumKVHeads: 1, Width: 2, Window: 200, Causal: true},
			"2 sequences of 300 to 777 keys (204 in the window) × 1 KV head give 2 units for 2 processors; uncut, since a split has at least 128 keys: 2 items of 204 keys",
		},
		{
			plan.Config{Seqs: lens(300, 50), NumKVHeads: 1, Width: 2, Window: 200},
			"2 sequences of 50 to 300 keys (50 to 200 in the window) × 1 KV head give 2 units for 2 processors; uncut, since a split has at least 128 keys: 2 items of 50 to 200 keys",
		},
		{
			plan.Config{Seqs: lens(200, 50), NumKVHeads: 1, Width: 2, Window: 200},
			"2 sequences of 50 to 200 keys × 1 KV head give 2 units for 2 processors; uncut, since a split has at least 128 keys: 2 items of 50 to 200 keys",
		},
		{
			plan.Config{Seqs: lens(0), NumKVHeads: 2, Width: 1},
			"nothing to do: no query of 1 sequence sees a key",
		},
		{
			plan.Config{NumKVHeads: 2, Width: 1},
			"nothing to do: no query of 0 sequences sees a key",
		},
	} {
		tc.cfg.GroupSize = 4
		if p := mustNew(t, tc.cfg); p.Reason != tc.want {
			t.Errorf("reason is\n%s\nwant\n%s", p.Reason, tc.want)
		}
	}
}

// TestString pins the text of a small plan.
func TestString(t *testing.T) {
	p := mustNew(t, plan.Config{Seqs: lens(1000, 0, 100), NumKVHeads: 1, GroupSize: 4, Width: 2})
	const want = `2 sequences of 100 to 1000 keys (1 more without a key) × 1 KV head give 2 units for 2 processors; cut into 1 to 2 splits each: 3 items of 100 to 512 keys
balance 0.935 (mean load / highest); 8 rows of partial states
`
	if p.String() != want {
		t.Errorf("the plan prints as\n%s\nwant\n%s", p, want)
	}
}

// TestAssign: every item once, and the processors as even as Balance says.
func TestAssign(t *testing.T) {
	p := mustNew(t, plan.Config{Seqs: concat(lens(50000), equal(20, 700)), NumKVHeads: 3, GroupSize: 4, Width: 31})
	lists := p.Assign()
	all := slices.Sorted(slices.Values(slices.Concat(lists...)))
	if len(lists) != 31 || len(all) != len(p.Items) {
		t.Fatalf("%d lists of %d items, want 31 of %d", len(lists), len(all), len(p.Items))
	}
	for i, j := range all {
		if i != j {
			t.Fatalf("item %d is missing or assigned twice", i)
		}
	}
	if got, want := p.Balance(), float64(totalWork(p))/31/float64(maxLoad(p)); got != want {
		t.Errorf("Balance is %v, the lists' is %v", got, want)
	}
}
