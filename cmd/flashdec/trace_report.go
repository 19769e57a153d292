package main

import (
	"fmt"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/timeline"
)

// traceReport is what trace prints.
type traceReport struct {
	Title      string        `json:"title"`
	File       string        `json:"file,omitempty"`
	Lens       string        `json:"lens,omitempty"`
	Backend    string        `json:"backend"`
	Device     string        `json:"device"`
	Kernel     string        `json:"kernel"`
	Threads    int           `json:"threads"`    // of the CPU; 0 elsewhere
	Processors int           `json:"processors"` // workers, or multiprocessors of a GPU
	KVDType    string        `json:"kv_dtype"`
	PageSize   int           `json:"page_size"` // 0: in place, or contiguous
	KVBytes    int           `json:"kv_bytes"`
	Tuned      string        `json:"tuned,omitempty"`
	Rounds     int           `json:"rounds"`           // of which the median is shown
	Decodes    []decodeTrace `json:"decodes"`          // the one to compare with first
	Sooner     float64       `json:"sooner,omitempty"` // seconds of the first / of the last
	Output     []string      `json:"output,omitempty"`
}

// decodeTrace is one way to cut the step, and what came of it.
type decodeTrace struct {
	run        timeline.Run
	Name       string        `json:"name"`
	Splits     int           `json:"splits"` // the most of any unit
	Units      int           `json:"units"`
	Items      int           `json:"items"`
	Merges     int           `json:"merges"`
	Reason     string        `json:"reason"`
	Seconds    float64       `json:"seconds"` // of the decode that is shown, the median
	SecondsMin float64       `json:"seconds_min"`
	SecondsMax float64       `json:"seconds_max"`
	Rate       float64       `json:"bytes_per_second"`
	Busy       float64       `json:"busy_share"` // of all workers' time
	Merging    float64       `json:"merge_seconds"`
	Woken      int           `json:"threads_woken"`    // of the CPU; 0 elsewhere
	Asleep     string        `json:"asleep,omitempty"` // why threads sleep that would have had an item
	Longest    *longestItem  `json:"longest_item,omitempty"`
	Workers    []workerTrace `json:"workers"`
}

// longestItem is the item that took longest.
type longestItem struct {
	Seq     int     `json:"seq"`
	Head    int     `json:"head"` // KV head
	Begin   int     `json:"begin"`
	End     int     `json:"end"`
	Seconds float64 `json:"seconds"`
}

// workerTrace is what one worker did.
type workerTrace struct {
	Items  int     `json:"items"`
	Merges int     `json:"merges"`
	Keys   int     `json:"keys"`
	Busy   float64 `json:"busy_seconds"`
	Idle   float64 `json:"idle_seconds"`
}

func (cmd *traceCmd) report(s *tracedStep, decodes []*tracedDecode) *traceReport {
	info := s.backend.Info()
	r := &traceReport{
		Title: s.title, File: cmd.File, Lens: cmd.Lens, Backend: info.Name, Device: info.Device, Kernel: info.Kernel,
		KVDType: s.kvDType, PageSize: s.pageSize, KVBytes: s.kvBytes, Tuned: s.tuned, Rounds: cmd.Rounds, Output: cmd.Out,
	}
	for _, d := range decodes {
		r.Decodes = append(r.Decodes, d.report(s.kvBytes))
	}
	r.Processors = len(r.Decodes[0].Workers)
	if info.Name == "cpu" {
		r.Threads = info.Width
	}
	if n := len(r.Decodes); n > 1 {
		r.Sooner = r.Decodes[0].Seconds / r.Decodes[n-1].Seconds
	}
	return r
}

func (d *tracedDecode) report(bytes int) decodeTrace {
	p, trace, sum := d.run.Plan, d.run.Trace, d.run.Summary()
	r := decodeTrace{
		run: d.run, Name: d.run.Name, Splits: p.MaxSplits(), Units: len(p.Units), Items: len(p.Items), Reason: p.Reason,
		Seconds: seconds(trace.End), SecondsMin: seconds(d.traces[0].End), SecondsMax: seconds(d.traces[len(d.traces)-1].End),
		Woken: d.woken.atLeast(sum.Worked).workers, Asleep: d.woken.whyAfter(sum.Worked), Busy: sum.Busy, Merging: seconds(sum.Merging), Workers: make([]workerTrace, len(sum.Processors)),
	}
	r.Rate = float64(bytes) / max(r.Seconds, 1e-9)
	for i, l := range sum.Processors {
		r.Workers[i] = workerTrace{l.Items, l.Merges, l.Keys, seconds(l.Busy), seconds(trace.End - l.Busy)}
		r.Merges += l.Merges
	}
	if w := sum.Longest; w != nil {
		it := p.Items[w.Index]
		r.Longest = &longestItem{it.Seq, it.Head, it.Begin, it.End, seconds(w.End - w.Begin)}
	}
	return r
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// processor is what computes an item at a time.
func (r *traceReport) processor() string {
	if r.Backend == "cuda" {
		return "SM"
	}
	return "worker"
}

// notes are the lines below a picture's title.
func (r *traceReport) notes() []string {
	cache := fmt.Sprintf("%s of %s", byteCount(r.KVBytes), r.KVDType)
	if r.PageSize > 0 {
		cache += fmt.Sprintf(" in pages of %d", r.PageSize)
	}
	device := r.Device
	if device != "" {
		device = " on " + device
	}
	notes := []string{
		fmt.Sprintf("%s%s: %s, %s kernels; keys and values: %s", r.Backend, device, count(r.Processors, r.processor()), r.Kernel, cache),
		fmt.Sprintf("each is the median of %s, after %d to warm up", count(r.Rounds, "decode"), warmUps),
	}
	if r.Backend == "cuda" {
		notes[1] += "; by the traced build of the kernels"
		if r.File != "" {
			notes[1] += ", right after the step was copied to the GPU"
		}
	}
	if r.Tuned != "" {
		notes = append(notes, "tuned "+r.Tuned)
	}
	return notes
}

// laneColumns is how many columns a lane of the terminal's picture has.
const laneColumns = columns - 12 - 6

func (r *traceReport) print(t *terminal) {
	t.printf("%s\n", fold(r.Title, 0))
	for _, note := range r.notes() {
		t.printf("%s\n", fold(note, 0))
	}
	span := int64(0)
	for i := range r.Decodes {
		span = max(span, r.Decodes[i].run.Trace.End)
	}
	for i := range r.Decodes {
		r.Decodes[i].print(t, r.processor(), span)
	}
	t.printf("\n%s\n", fold(fmt.Sprintf("A column is %s: █ all of it busy, ▁ a little, · waiting, ◆ a merge.", timeline.Duration(max(span/laneColumns, 1))), 0))
	if n := len(r.Decodes); n > 1 {
		t.printf("%s\n", fold(r.outcome(), 0))
	}
	for _, path := range r.Output {
		t.printf("wrote %s\n", quotePath(path))
	}
}

// outcome compares the decodes.
func (r *traceReport) outcome() string {
	first, last := &r.Decodes[0], &r.Decodes[len(r.Decodes)-1]
	name := last.Name
	if strings.Contains(name, ",") {
		name += ","
	}
	const alike = 1.1 // times that lie no further apart are called the same
	how := fmt.Sprintf("is done %.2g times sooner than with %s", r.Sooner, first.Name)
	switch {
	case r.Sooner < 1/alike:
		how = fmt.Sprintf("is done %.2g times later than with %s", 1/r.Sooner, first.Name)
	case r.Sooner < alike:
		how = "takes as long as with " + first.Name
	}
	busy := timeline.Percent(last.Busy) + " of the time"
	if before := timeline.Percent(first.Busy); before != timeline.Percent(last.Busy) {
		busy += ", not " + before
	}
	return fmt.Sprintf("With %s the decode %s: %ss are busy %s.", name, how, r.processor(), busy)
}

func (d *decodeTrace) print(t *terminal, processor string, span int64) {
	t.printf("\n%s: %s, %ss busy %s of the time\n", d.Name, bench.Duration(d.Seconds), processor, timeline.Percent(d.Busy))
	parts := []string{count(d.Items, "item")}
	if l := d.Longest; l != nil {
		parts = append(parts, fmt.Sprintf("the longest %s (sequence %d, KV head %d, %s)", bench.Duration(l.Seconds), l.Seq, l.Head, count(l.End-l.Begin, "key")))
	}
	if d.Merges > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s in all", count(d.Merges, "merge"), bench.Duration(d.Merging)))
	}
	t.printf("%s\n", fold(strings.Join(parts, "; "), 0))
	if d.Asleep != "" {
		t.printf("%s\n", fold(d.Asleep, 0))
	}
	t.printf("%s", d.run.Text(processor, laneColumns, span))
}
