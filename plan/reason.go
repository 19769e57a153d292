package plan

import "fmt"

// String is the plan in two lines: why it is as it is, and how even.
func (p *Plan) String() string {
	return fmt.Sprintf("%s\nbalance %.3f (mean load / highest); %s of partial states\n",
		p.Reason, p.Balance(), count(p.Rows, "row"))
}

// reason says why the cuts have the splits they have, which so many KV heads that go
// together may have changed.
func (p *Plan) reason(cuts []cut, together int) string {
	s := p.summarize(cuts)
	units := s.cuts * p.Config.NumKVHeads
	if units == 0 {
		return fmt.Sprintf("nothing to do: no query of %s sees a key", count(len(p.Config.Seqs), "sequence"))
	}
	verb := "give"
	if s.seqs == 1 {
		verb = "gives"
	}
	beside := ""
	if together > 1 {
		beside = fmt.Sprintf(", for processors that take %s together", count(together, "KV head"))
	}
	return fmt.Sprintf("%s × %s %s %s for %s; %s%s%s: %s of %s", s.batch(), count(p.Config.NumKVHeads, "KV head"),
		verb, count(units, "unit"), count(p.Config.Width, "processor"), p.why(s), beside, p.given(),
		count(len(p.Items), "item"), extent(s.minItem, s.maxItem, "key"))
}

// given names the least keys of a split where they bound the plan and are not its
// own.
func (p *Plan) given() string {
	cfg := &p.Config
	if cfg.MinKeysPerSplit == 0 || cfg.NumSplits > 0 || cfg.Invariant {
		return ""
	}
	source := cfg.MinKeysSource
	if source == "" {
		source = "as given"
	}
	if p.MaxSplits() < 2 {
		return fmt.Sprintf(" (%s)", source)
	}
	return fmt.Sprintf(" (a split has at least %s, %s)", count(cfg.MinKeysPerSplit, "key"), source)
}

// summary is what a reason tells of the cuts that see a key.
type summary struct {
	cuts, seqs, blind    int // blind: query tiles that see no key
	minKeys, maxKeys     int // of a cut
	minLen, maxLen       int // of a cut's sequence
	minItem, maxItem     int // keys of an item
	minSplits, maxSplits int
}

func (p *Plan) summarize(cuts []cut) summary {
	s := summary{minKeys: maxInt, minLen: maxInt, minItem: maxInt, minSplits: maxInt}
	seq := -1
	for i := range cuts {
		c := &cuts[i]
		if c.n == 0 {
			s.blind++
			continue
		}
		s.cuts++
		if c.seq != seq {
			seq = c.seq
			s.seqs++
		}
		s.minKeys, s.maxKeys = min(s.minKeys, c.keys()), max(s.maxKeys, c.keys())
		if p.Config.Window > 0 { // else a cut has all keys, or those before its last query
			n := p.Config.Seqs[c.seq].Len
			s.minLen, s.maxLen = min(s.minLen, n), max(s.maxLen, n)
		}
		s.minSplits, s.maxSplits = min(s.minSplits, c.n), max(s.maxSplits, c.n)
		s.minItem, s.maxItem = min(s.minItem, c.end-c.border(c.n-1)), max(s.maxItem, c.border(1)-c.begin)
	}
	return s
}

// batch describes the sequences: "3 sequences of 16 to 4096 keys", or where a window
// hides some, "3 sequences of 16 to 4096 keys (16 to 128 in the window)".
func (s summary) batch() string {
	keys := extent(s.minKeys, s.maxKeys, "key")
	if s.maxLen > s.maxKeys {
		keys = fmt.Sprintf("%s (%s in the window)", extent(s.minLen, s.maxLen, "key"), span(s.minKeys, s.maxKeys))
	}
	text := fmt.Sprintf("%s of %s", count(s.seqs, "sequence"), keys)
	if s.cuts > s.seqs {
		text += fmt.Sprintf(" in %s", count(s.cuts, "query tile"))
	}
	if s.blind > 0 {
		text += fmt.Sprintf(" (%d more without a key)", s.blind)
	}
	return text
}

// why says what chose the splits.
func (p *Plan) why(s summary) string {
	splits := extent(s.minSplits, s.maxSplits, "split")
	switch cfg := &p.Config; {
	case cfg.NumSplits > 0 && s.minSplits < cfg.NumSplits:
		return fmt.Sprintf("cut into the %s asked for, as far as there are keys", count(cfg.NumSplits, "split"))
	case cfg.NumSplits > 0:
		return fmt.Sprintf("cut into the %s asked for", splits)
	case cfg.Invariant:
		return fmt.Sprintf("cut by their own keys alone into %s each", splits)
	case s.maxSplits > 1:
		return fmt.Sprintf("cut into %s each", splits)
	case s.maxKeys < 2*p.Config.minKeys():
		return fmt.Sprintf("uncut, since a split has at least %d keys", p.Config.minKeys())
	}
	return fmt.Sprintf("uncut, since no cut ends sooner by more than %d%%", 100/enough)
}

// extent is "5 keys" or "5 to 7 keys".
func extent(low, high int, noun string) string {
	if low == high {
		return count(high, noun)
	}
	return fmt.Sprintf("%d to %s", low, count(high, noun))
}

// span is "5" or "5 to 7".
func span(low, high int) string {
	if low == high {
		return fmt.Sprint(high)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// count is "1 key" or "2 keys".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
