package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/flashdec/flashdec/internal/bench"
)

// benchRun is one thing to measure: a suite's case with a number of threads, 0 on a
// GPU.
type benchRun struct {
	suite   string
	c       bench.Case
	threads int
}

// runs are all that was asked for, each list of them to be measured in turns. On a
// GPU, whose memory keeps its pace and holds one type at a time, each is alone.
func (cmd *benchCmd) runs() ([][]benchRun, error) {
	var all []benchRun
	var parts []string // of the names of the cases that there are
	var name string    // of the first
	for _, s := range bench.Suites {
		if !slices.Contains(cmd.Suite, "all") && !slices.Contains(cmd.Suite, s.Name) {
			continue
		}
		cases := s.Cases(cmd.bytes())
		if cmd.on() == "cuda" { // memory is filled once a type
			slices.SortStableFunc(cases, func(a, b bench.Case) int { return cmp.Compare(a.DType, b.DType) })
		}
		for _, c := range cases {
			if !cmd.takes(c.Name) {
				name = cmp.Or(name, c.Name)
				parts = append(parts, strings.Split(c.Name, ", ")...)
				continue
			}
			for _, threads := range cmd.threadCounts(s.Name) {
				all = append(all, benchRun{s.Name, c, threads})
			}
		}
	}
	if large := cmd.tooLarge(); len(all) == 0 && cmd.Match != "" && large != "" {
		return nil, fmt.Errorf("case %q, which --match %q takes, does not fit into %s: see --mb", large, cmd.Match, byteCount(cmd.bytes()))
	}
	if len(all) == 0 && len(parts) > 0 {
		return nil, fmt.Errorf("--match is %q, want whole words of a case's name such as %q: %s", cmd.Match, name, someOf(parts))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no case of suite %s fits into %s: see --mb",
			strings.Join(cmd.Suite, ", "), byteCount(cmd.bytes()))
	}
	return inTurns(all), nil
}

// tooLarge is the name of the first case that --match takes of those that would need more memory; "" if there is none.
func (cmd *benchCmd) tooLarge() string {
	const anything = min(maxMB<<20, math.MaxInt)
	for _, s := range bench.Suites {
		if !slices.Contains(cmd.Suite, "all") && !slices.Contains(cmd.Suite, s.Name) {
			continue
		}
		for _, c := range s.Cases(anything) {
			if cmd.takes(c.Name) {
				return c.Name
			}
		}
	}
	return ""
}

// takes tells whether --match takes a case of that name: all where it is not given, none where it has no word.
func (cmd *benchCmd) takes(name string) bool {
	return cmd.Match == "" || len(wordsOf(cmd.Match)) > 0 && hasWords(name, cmd.Match)
}

// hasWords tells whether a name has the words of a text, in whatever case: f16 is not in bf16. What has no comma between
// stands side by side, as "group 4" does.
func hasWords(name, text string) bool {
	have := wordsOf(name)
	for part := range strings.SplitSeq(text, ",") {
		if !sideBySide(have, wordsOf(part)) {
			return false
		}
	}
	return true
}

// wordsOf are the runs of letters and digits, in lower case, and 1k or 2m as the number that it is.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	for i := range words {
		words[i] = inFull(words[i])
	}
	return words
}

// inFull is 1k as 1024 and 2m as 2097152, and any other word as it is.
func inFull(word string) string {
	for suffix, bits := range map[string]int{"k": 10, "m": 20} {
		if number, short := strings.CutSuffix(word, suffix); short {
			if n, err := strconv.ParseUint(number, 10, 32); err == nil {
				return strconv.FormatUint(n<<bits, 10)
			}
		}
	}
	return word
}

// sideBySide tells whether a list has the words of another in one stretch.
func sideBySide(list, some []string) bool {
	for at := 0; at+len(some) <= len(list); at++ {
		if slices.Equal(list[at:at+len(some)], some) {
			return true
		}
	}
	return false
}

// someOf lists what differs among parts of names, as much as an error has room for.
func someOf(parts []string) string {
	const most = 20
	var list []string
	for _, p := range parts {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), more)
	}
	return strings.Join(list, "; ")
}

// together is what runs have in common that are measured in turns.
type together struct {
	suite, turns string
	threads      int
}

// inTurns groups runs, in the order of the first of each group.
func inTurns(runs []benchRun) [][]benchRun {
	var groups [][]benchRun
	place := make(map[together]int)
	for _, r := range runs {
		k := together{r.suite, r.c.Turns, r.threads}
		if r.suite == "threads" {
			k.threads = 0 // their numbers are what is compared
		}
		i, known := place[k]
		if !known || r.c.Turns == "" || r.threads == 0 {
			i = len(groups)
			place[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// checkMemory refuses what so much free memory has no room for: nothing is filled
// before.
func (cmd *benchCmd) checkMemory(turns [][]benchRun, free int) error {
	if cmd.on() == "cuda" {
		return nil
	}
	var cases []bench.Case
	types := make(map[string]bool)
	for _, runs := range turns {
		for _, r := range runs {
			cases, types[r.c.DType.String()] = append(cases, r.c), true
		}
	}
	if need := bench.Memory(cases, cmd.bytes()); need > free {
		return fmt.Errorf("--mb is %d: keys and values of %s and their scales take %s of memory, want at most %s, what is free: see --match, too",
			cmd.bytes()>>20, count(len(types), "type"), byteCount(need), byteCount(free))
	}
	return nil
}

// tellCached warns where the processors' last caches hold what is laid out: reads of memory are what a bench is about.
func (cmd *benchCmd) tellCached(t *terminal, caches int) {
	if cmd.on() == "cuda" || cmd.bytes() > caches {
		return
	}
	fmt.Fprintf(t.errs, "flashdec: keys and values of %s (--mb, --quick) fit into the processors' last caches of %s: times are of these, not of memory\n",
		byteCount(cmd.bytes()), byteCount(caches))
}

// mostThreads is the most that any run computes on.
func mostThreads(turns [][]benchRun) int {
	most := 0
	for _, runs := range turns {
		for _, r := range runs {
			most = max(most, r.threads)
		}
	}
	return most
}

func (cmd *benchCmd) measureAll(ctx context.Context, report *benchReport) (err error) {
	turns, err := cmd.runs()
	if err != nil {
		return err
	}
	if err := cmd.checkMemory(turns, freeMemory()); err != nil {
		return err
	}
	cmd.tellCached(report.t, bench.LastCaches(mostThreads(turns)))
	bed, err := cmd.openBed(report.tuner)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	p, err := startPeer(cmd.Peer, report.t.errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	bar := report.t.bar(len(slices.Concat(turns...)), "measuring")
	defer bar.done()
	for _, runs := range turns {
		if err := cmd.measureTurns(ctx, runs, bed, p, report); err != nil {
			return fmt.Errorf("suite %s, %w", runs[0].suite, err)
		}
		bar.steps(len(runs))
	}
	return nil
}

// measureTurns measures runs in turns. What rounds there were when it failed or was
// interrupted is reported, too.
func (cmd *benchCmd) measureTurns(ctx context.Context, runs []benchRun, bed benchBed, p *peer, report *benchReport) (err error) {
	ways := make([]*benchWays, len(runs))
	lists := make([][]*bench.Impl, len(runs))
	for i := range runs {
		if ways[i], err = cmd.waysOf(ctx, &runs[i], bed, p); err != nil {
			return fmt.Errorf("%s: %w", runs[i].c.Name, err)
		}
		defer func() { err = errors.Join(err, ways[i].Close()) }()
		lists[i] = ways[i].list
	}
	err = bench.Measure(ctx, lists, cmd.rounds())
	for i := range runs {
		err = errors.Join(err, report.addWays(&runs[i], ways[i]))
	}
	return err
}

// waysOf are the ways to compute a run's case, a peer's among them.
func (cmd *benchCmd) waysOf(ctx context.Context, r *benchRun, bed benchBed, p *peer) (*benchWays, error) {
	ways, err := bed.ways(ctx, r)
	if err != nil {
		return nil, err
	}
	other, err := p.impl(ctx, &r.c, r.threads)
	if err != nil {
		return nil, errors.Join(err, ways.Close())
	}
	if other != nil {
		ways.list = append(ways.list, other)
	}
	return ways, nil
}
