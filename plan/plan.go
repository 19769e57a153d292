// Package plan cuts a decode step into items of even work and fixes the order in
// which their states merge. It is pure: lengths, rules and a width go in, a
// [Plan] comes out; no clock, no device.
//
// A unit is what one merge yields: a sequence, a tile of its new queries, and a
// KV head, whose GroupSize query heads all take part. The keys that a unit sees
// are cut into splits; an item is one split of one unit. A unit of one split
// needs no merge, and a unit that sees no key needs no item.
package plan

// Seq is one sequence's part in a decode step.
type Seq struct {
	Len        int // keys in the cache, the new ones counted
	NumQueries int // new queries, the last standing at the last key
}

// Config is what a plan is made from.
type Config struct {
	Seqs       []Seq
	NumKVHeads int
	GroupSize  int // query heads a KV head
	Causal     bool
	Window     int // newest keys a query sees; 0 is all
	Width      int // items that run at once
	// NumSplits forces that many splits a unit, as far as it has keys: beyond, a
	// split is one key. 0 chooses. It goes before Invariant, and is invariant too.
	NumSplits int
	// Invariant makes a unit's splits depend on its own sequence and the heads alone: not on
	// the batch around it, its place, or Width.
	Invariant bool
	QueryTile int // most queries an item takes; 0 is all
	// HeadTile is how many KV heads a processor likes to take together, item by item;
	// 0 is 1. Where cutting keys instead of parting heads ends a step about as soon,
	// the plan does so. Like MinKeysPerSplit it bounds what the plan chooses and
	// nothing else.
	HeadTile int
	// MinKeysPerSplit is the least number of keys that a split is worth, at least
	// LeastKeysPerSplit; 0 is the plan's own constant, 128. It bounds what the plan chooses and
	// nothing else: not NumSplits, and not Invariant, whose splits would then
	// depend on what one machine has measured.
	MinKeysPerSplit int
	// StartKeys is what starting an item costs, in keys of time; 0 is 32. A larger one
	// makes fewer items.
	StartKeys int
	// Saturating is how many processors read as fast as all of them together, at most
	// Width; 0 is Width. Where it is less, half of the processors may be all that a step is
	// cut for: they share their ways to the memory in pairs, so no other part is tried.
	Saturating int
	// SaturatingKeys is the longest item, in keys, of which Saturating of them read as fast;
	// 0 is any.
	SaturatingKeys int
	// MergeKeys is what every split of a unit adds to the step's end, in keys of time of a
	// processor's share: the last one to arrive gathers the others' states. At most LeastKeysPerSplit; 0 is none.
	MergeKeys int
	// MinKeysSource says where MinKeysPerSplit came from, for Reason: "tuned on
	// 2026-11-30", "the backend's".
	MinKeysSource string
}

// MaxWidth is the highest Width: far above any processor's.
const MaxWidth = 1 << 16

// LeastKeysPerSplit is the lowest MinKeysPerSplit: the keys that kernels load
// together.
const LeastKeysPerSplit = keyTile

// Item is one piece of work: some queries of one sequence, one KV head, and the
// keys [Begin, End).
type Item struct {
	Unit       int // index into Plan.Units
	Seq        int
	Head       int // KV head
	Query      int // first query, counted within the sequence
	NumQueries int
	Begin, End int // keys
	// Row is the first of the item's NumQueries·GroupSize rows of partial
	// states, or Whole where the unit has this item only.
	Row int
}

// Whole is the Row of an item that is its unit's only one: its state is the
// result.
const Whole = -1

// Unit is one merge: rows of items, in the order of the keys.
type Unit struct {
	Seq        int
	Head       int // KV head
	Query      int // first query, counted within the sequence
	NumQueries int
	Begin, End int // keys that any of its queries sees; equal when none
	NumSplits  int // 0 when it sees no key
	// Row is the first row of partial states: split i's begin at
	// Row + i·NumQueries·GroupSize. Whole when NumSplits is below 2.
	Row int
}

// Plan is the work of one decode step. It is for reading: a changed plan does not
// pass [Plan.Check], nor does one that New did not make. It can be used any number
// of times and from several goroutines.
type Plan struct {
	Config Config
	Items  []Item // in the order to start them: heaviest first
	Units  []Unit // by sequence, query tile and KV head
	Rows   int    // rows of partial states in all
	Reason string // why that many splits, in a sentence

	// bySplit is the items by unit and split, as indexes into Items: what Check
	// needs to see each exactly once without counting them.
	bySplit []int32
}

// MaxSplits is the most splits of any unit; 0 where none sees a key.
func (p *Plan) MaxSplits() int {
	most := 0
	for i := range p.Units {
		most = max(most, p.Units[i].NumSplits)
	}
	return most
}
