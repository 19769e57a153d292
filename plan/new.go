package plan

import (
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/attn"
)

// wide is 1 where an int has 64 bits, and 0 where it has 32.
const wide = ^uint(0) >> 63

// Bounds of what New accepts. Within them no product of a plan overflows an int,
// so they are lower where that has 32 bits.
const (
	maxHeads   = 1 << 20             // KV heads, query heads a KV head: as attn.Shape
	maxLen     = 1 << (26 + 14*wide) // keys of a sequence
	maxQueries = 1 << 30             // new queries of a sequence
	maxItems   = 1 << 24             // units, and items: about 2 GB of plan
	maxRows    = 1 << (26 + 14*wide) // rows of partial states
	maxStart   = 1 << 20             // keys' worth of starting an item
	maxWork    = 1 << (29 + 31*wide) // see work
)

// New plans a decode step. It wraps [attn.ErrShape] and [attn.ErrOption].
func New(cfg Config) (*Plan, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Seqs = slices.Clone(cfg.Seqs)
	cuts := cfg.cuts()
	if err := cfg.affordable(cuts); err != nil {
		return nil, err
	}
	together := cfg.split(cuts)
	if err := cfg.bounded(cuts); err != nil {
		return nil, err
	}
	p := lay(cfg, cuts)
	p.Reason = p.reason(cuts, together)
	return p, nil
}

// split chooses the number of splits of every cut, and tells for how many KV heads
// that go together: 1 where that changed nothing.
func (cfg *Config) split(cuts []cut) (together int) {
	switch {
	case cfg.NumSplits > 0:
		for i := range cuts {
			cuts[i].step, cuts[i].n = 1, min(cfg.NumSplits, cuts[i].keys())
		}
	case cfg.Invariant:
		for i := range cuts {
			cuts[i].n = invariantSplits(&cuts[i], cfg.NumKVHeads)
		}
	default:
		return cfg.balance(cuts)
	}
	return 1
}

func (cfg *Config) validate() error {
	for _, f := range [...]struct {
		name           string
		got, low, high int
		kind           error
	}{
		{"number of KV heads", cfg.NumKVHeads, 1, maxHeads, attn.ErrShape},
		{"group size", cfg.GroupSize, 1, maxHeads, attn.ErrShape},
		{"width", cfg.Width, 1, MaxWidth, attn.ErrOption},
		{"window", cfg.Window, 0, maxInt, attn.ErrOption},
		{"number of splits", cfg.NumSplits, 0, maxInt, attn.ErrOption},
		{"query tile", cfg.QueryTile, 0, maxInt, attn.ErrOption},
		{"head tile", cfg.HeadTile, 0, maxInt, attn.ErrOption},
		{"keys of starting an item", cfg.StartKeys, 0, maxStart, attn.ErrOption},
		{"number of processors that saturate the memory", cfg.Saturating, 0, max(cfg.Width, 0), attn.ErrOption},
		{"longest item that few processors read as fast", cfg.SaturatingKeys, 0, maxInt, attn.ErrOption},
		{"keys of merging a split", cfg.MergeKeys, 0, LeastKeysPerSplit, attn.ErrOption},
		{"least number of keys per split", cfg.minKeys(), LeastKeysPerSplit, maxLen, attn.ErrOption},
	} {
		if f.got < f.low || f.got > f.high {
			return fmt.Errorf("plan: %w: %s is %d, want %s", f.kind, f.name, f.got, interval(f.low, f.high))
		}
	}
	units := 0.0
	for i, s := range cfg.Seqs {
		if s.Len < 0 || s.Len > maxLen {
			return fmt.Errorf("plan: %w: sequence %d has %d keys, want %s", attn.ErrShape, i, s.Len, interval(0, maxLen))
		}
		if s.NumQueries < 0 || s.NumQueries > maxQueries {
			return fmt.Errorf("plan: %w: sequence %d has %d queries, want %s", attn.ErrShape, i, s.NumQueries, interval(0, maxQueries))
		}
		if units += float64(cfg.tiles(s)) * float64(cfg.NumKVHeads); units > maxItems {
			return fmt.Errorf("plan: %w: sequences 0 to %d make %.0f units (query tiles × KV heads), want at most %d", attn.ErrShape, i, units, maxItems)
		}
		if rows := float64(s.NumQueries) * float64(cfg.GroupSize); rows > maxRows {
			return fmt.Errorf("plan: %w: sequence %d has %.0f query rows a KV head, want at most %d", attn.ErrShape, i, rows, maxRows)
		}
	}
	return nil
}

const maxInt = int(^uint(0) >> 1)

func interval(low, high int) string {
	if high == maxInt {
		return fmt.Sprintf("at least %d", low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// affordable bounds the work, so that sums of it fit an int.
func (cfg *Config) affordable(cuts []cut) error {
	sum := 0.0 // a float64 cannot wrap, and the bound is far from MaxInt
	for i := range cuts {
		c := &cuts[i]
		sum += float64(c.keys()+c.start) * float64(c.keyWork()) * float64(cfg.NumKVHeads)
	}
	if sum > maxWork {
		return fmt.Errorf("plan: %w: keys × query rows come to %g, want at most %g", attn.ErrShape, sum, float64(maxWork))
	}
	return nil
}

// bounded bounds what the chosen splits make.
func (cfg *Config) bounded(cuts []cut) error {
	items, rows := 0.0, 0.0
	for i := range cuts {
		n := float64(cuts[i].n) * float64(cfg.NumKVHeads)
		items += n
		rows += n * float64(cuts[i].rows)
	}
	if items > maxItems {
		return fmt.Errorf("plan: %w: %.0f items, want at most %d: fewer splits", attn.ErrShape, items, maxItems)
	}
	if rows > maxRows {
		return fmt.Errorf("plan: %w: %.0f rows of partial states, want at most %d: fewer splits", attn.ErrShape, rows, maxRows)
	}
	return nil
}
