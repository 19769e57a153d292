package plan

import "slices"

// The cost model of free mode. Only ratios matter: they say when a finer cut
// pays for its extra states.
const (
	// keyCost is what loading a key and its value costs, in products with a query
	// row: a processor core that streams at full speed does about 8 rows in the
	// time that the bytes take.
	keyCost = 8
	// startKeys is what starting an item costs, in keys: about 1 µs on a GPU's
	// processor, half on a CPU core, both at some 35 GB/s.
	startKeys = 32
	// stateCost is what a row of partial state costs, in products of a row with
	// a key: written once, read once and merged.
	stateCost = 4
	// minKeysPerSplit is the least number of keys of a split where a Config says
	// none: starting it and keeping its state cost a fifth as much as that many keys.
	minKeysPerSplit = 128
	// straggle is the part of the largest item that processors, which are never
	// equally fast, end apart.
	straggle = 32
	// straggleTiles is the same of a split of a tile of heads: threads, which take such,
	// are disturbed more than a GPU's processors.
	straggleTiles = 8
	// enough is the part of the ideal time that more cutting is not tried for.
	enough = 50
	// gain is the part of the time that a finer cut must save, since it needs more
	// rows of partial states.
	gain = 200
	// fine is the part of a processor's share below which items pour like sand:
	// they end level, without a simulation.
	fine = 32
	// closely is the part of the time that leaving a tile of heads together may cost.
	closely = 16
)

// keyWork is the work of one key of a unit.
func (c *cut) keyWork() int { return keyCost + c.rows }

// overhead is the work of an item beside its keys.
func (c *cut) overhead() int {
	if c.n < 2 {
		return c.start * keyCost
	}
	return c.start*keyCost + stateCost*c.rows
}

// balance looks for the splits that end a step soonest.
//
// With W the work of all units, no cut ends before W/Width. List scheduling,
// heaviest first, ends within the last placed item of that, so items of at most
// W/(Width·8) end within an eighth, and a wave that just fits much nearer. Which
// waves fit depends on counts (17 splits of 8 heads are 136 items: two waves on
// 132 processors, nearly twice as long as 16 splits), so the search does not
// reason about them; it simulates a few cuts, from coarse to fine, and compares.
type balance struct {
	cuts  []cut
	tiles int // of KV heads, each taken by one processor
	tile  int // heads of a tile
	width int
	least int // keys of a split
	few   int // processors that read as fast as all
	short int // keys of the longest item that they do so with
	merge int // keys that a split adds to the end
	work  int // of all items, overheads left out
	runs  []run
	loads levels
	best  []int // splits of each cut
	time  int   // of the best, in work of one processor: its end, and how far processors end apart
	end   int
}

// balance chooses the splits of every cut, and tells for how many KV heads that go
// together: 1 where that changed nothing.
func (cfg *Config) balance(cuts []cut) int {
	apart := newBalance(cfg, cuts, 1)
	apart.search()
	if tile := min(cfg.HeadTile, cfg.NumKVHeads); tile > 1 {
		together := newBalance(cfg, cuts, tile)
		together.search()
		if together.end <= apart.end+apart.end/closely {
			together.adopt()
			if slices.Equal(together.best, apart.best) {
				return 1
			}
			return together.tile
		}
	}
	apart.adopt()
	return 1
}

func newBalance(cfg *Config, cuts []cut, tile int) *balance {
	tiles := ceil(cfg.NumKVHeads, tile)
	b := &balance{cuts: cuts, tiles: tiles, tile: ceil(cfg.NumKVHeads, tiles), width: cfg.Width, least: cfg.minKeys(), few: cfg.saturating(), short: cfg.SaturatingKeys, merge: cfg.MergeKeys, time: maxInt}
	for i := range cuts {
		b.work += cuts[i].keys() * cuts[i].keyWork() * b.tile * tiles
	}
	return b
}

// waves are the items a processor gets, in the order they are tried: coarse cuts
// cost least, fine ones end evenly at odd widths (8 units on 31 processors fit
// in 8 waves of 31 splits each).
var waves = [...]int{1, 2, 3, 4, 6, 8}

// search looks for every cut's splits. It simulates the uncut step first, then cuts
// for half of the processors where a Config says that few read as fast, then cuts
// of W/(Width·waves) an item, rounded to fewer and to more splits, and keeps the
// soonest end, the coarser among those within 1/gain. It stops at what is within
// 1/enough of the ideal.
func (b *balance) search() {
	b.best = make([]int, len(b.cuts))
	if b.try(b.work+1, false) {
		return
	}
	if b.few < b.width && b.try(max(1, 2*(b.work/b.width)), false) {
		return
	}
	for _, w := range waves {
		piece := max(1, b.work/(b.width*w))
		if b.try(piece, false) || b.try(piece+1, true) {
			return
		}
	}
}

func (b *balance) adopt() {
	for i := range b.cuts {
		b.cuts[i].n = b.best[i]
	}
}

// try cuts units into pieces of which a tile of heads makes about that much work, and
// reports whether the result is good enough to stop.
func (b *balance) try(piece int, up bool) bool {
	for i := range b.cuts {
		b.cuts[i].divide(max(1, piece/b.tile), b.least, up)
	}
	end, apart := b.simulate()
	time := end + apart
	if time < b.time-b.time/gain {
		b.time, b.end = time, end
		for i := range b.cuts {
			b.best[i] = b.cuts[i].n
		}
	}
	ideal := b.work / b.width
	return time <= ideal+ideal/enough
}

// minKeys is the least number of keys of a split that the plan chooses.
func (cfg *Config) minKeys() int {
	if cfg.MinKeysPerSplit != 0 {
		return cfg.MinKeysPerSplit
	}
	return minKeysPerSplit
}

// divide sets the splits for pieces of that much work, and of at least so many
// keys.
func (c *cut) divide(piece, least int, up bool) {
	if c.keys() == 0 {
		c.n = 0
		return
	}
	work := c.keys() * c.keyWork()
	n := work / piece
	if up {
		n = ceil(work, piece)
	}
	c.n = max(1, min(n, c.keys()/least))
}

// simulate is the time at which list scheduling ends, heaviest items first, with
// overheads, and how far processors may end apart for the largest item.
func (b *balance) simulate() (end, apart int) {
	limit := b.work / (b.width * fine)
	b.runs = b.runs[:0]
	sand, items, longest := 0, 0, 0
	for i := range b.cuts {
		c := &b.cuts[i]
		items += c.n * b.tiles
		keys := ceil(c.keys(), max(c.n, 1))
		longest = max(longest, keys)
		if work := keys * c.keyWork() * b.tile; work <= limit {
			sand += (c.keys()*c.keyWork() + c.n*c.overhead()) * b.tile * b.tiles
			continue
		}
		b.runs = appendRuns(b.runs, i, c)
	}
	sortRuns(b.runs)
	l := &b.loads
	l.reset(b.width)
	for _, r := range b.runs {
		l.place((r.work+b.cuts[r.cut].overhead())*b.tile, r.count*b.tiles)
	}
	largest := limit
	if len(b.runs) > 0 {
		largest = b.runs[0].work * b.tile
	}
	top, apart := l.top, b.apart(largest)
	if items <= b.width/2 && (b.short == 0 || longest <= b.short) {
		top = b.alone(top)
	}
	if items <= b.width {
		apart = b.alone(apart) // those that are left read faster
	}
	return max(top, (l.sum+sand)/b.width) + b.gather(), apart
}

// alone is the time of a processor's load where few are busy, none of them beside another
// on a way to the memory: it then reads at the rate of one of few.
func (b *balance) alone(load int) int {
	if b.few == b.width {
		return load
	}
	return load / b.width * b.few
}

// gather is what the merge of most states adds to the end.
func (b *balance) gather() int {
	most := 0
	if b.merge > 0 {
		for i := range b.cuts {
			if c := &b.cuts[i]; c.n > 1 {
				most = max(most, gathered(c.n)*b.merge*c.keyWork()*b.tile)
			}
		}
	}
	return most
}

// gathered is how many states' time the merge of n takes: of more than 16 in two steps,
// first in bands of 8, and another wait for the last to arrive.
func gathered(n int) int {
	const oneStep, band, wait = 16, 8, 8
	if n <= oneStep {
		return n
	}
	return band + wait + ceil(n, band)
}

// apart is how far processors end apart whose largest item takes so long.
func (b *balance) apart(largest int) int {
	switch {
	case b.width == 1:
		return 0
	case b.tile > 1:
		return largest / straggleTiles
	}
	return largest / straggle
}

// saturating is the configuration's Saturating, or all processors.
func (cfg *Config) saturating() int {
	if cfg.Saturating != 0 {
		return cfg.Saturating
	}
	return cfg.Width
}

// startKeys is the configuration's StartKeys, or the default.
func (cfg *Config) startKeys() int {
	if cfg.StartKeys != 0 {
		return cfg.StartKeys
	}
	return startKeys
}
