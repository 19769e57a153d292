package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/flashdec/flashdec/backend"
)

// event is one of the Trace Event Format: "X" is a piece of work with its
// duration, "M" names a process or a thread. Times are in microseconds.
type event struct {
	Phase string         `json:"ph"`
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Time  float64        `json:"ts"`
	Dur   *float64       `json:"dur,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteEvents writes runs in the Trace Event Format: a process a run, a thread a
// lane of a processor, named after it ("worker 0"); other is what is said of the whole.
func WriteEvents(w io.Writer, runs []Run, lane string, other map[string]string) error {
	b := bufio.NewWriter(w)
	about, err := json.Marshal(other)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, `{"displayTimeUnit":"ns","otherData":%s,"traceEvents":[`, about)
	separator := "\n"
	put := func(e event) error {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		b.WriteString(separator)
		b.Write(text)
		separator = ",\n"
		return nil
	}
	for i := range runs {
		if err := runs[i].events(i+1, lane, put); err != nil {
			return err
		}
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}

// events puts the events of a run.
func (r *Run) events(pid int, lane string, put func(event) error) error {
	if err := put(event{Phase: "M", Name: "process_name", PID: pid, Args: map[string]any{"name": r.Name}}); err != nil {
		return err
	}
	if err := put(event{Phase: "M", Name: "process_sort_index", PID: pid, Args: map[string]any{"sort_index": pid}}); err != nil {
		return err
	}
	for tid, work := range r.Trace.ByLane() {
		name := map[string]any{"name": r.laneName(lane, tid)}
		if err := put(event{Phase: "M", Name: "thread_name", PID: pid, TID: tid, Args: name}); err != nil {
			return err
		}
		order := map[string]any{"sort_index": tid}
		if err := put(event{Phase: "M", Name: "thread_sort_index", PID: pid, TID: tid, Args: order}); err != nil {
			return err
		}
		for _, w := range work {
			e := r.event(w)
			e.PID, e.TID = pid, tid
			if err := put(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// laneName is "SM 3", or "SM 3, slot 1" where processors have several lanes.
func (r *Run) laneName(processor string, lane int) string {
	slots := max(r.Trace.Slots, 1)
	name := fmt.Sprintf("%s %d", processor, lane/slots)
	if slots > 1 {
		name += fmt.Sprintf(", slot %d", lane%slots)
	}
	return name
}

// event is a piece of work as an event.
func (r *Run) event(w backend.Work) event {
	dur := float64(w.End-w.Begin) / 1e3
	e := event{Phase: "X", Time: float64(w.Begin) / 1e3, Dur: &dur}
	if w.Kind == backend.Merge {
		u := &r.Plan.Units[w.Index]
		e.Cat, e.Name = "merge", fmt.Sprintf("merge seq %d head %d", u.Seq, u.Head)
		e.Args = map[string]any{"sequence": u.Seq, "kv_head": u.Head, "query": u.Query, "queries": u.NumQueries, "splits": u.NumSplits}
		return e
	}
	it := &r.Plan.Items[w.Index]
	e.Cat, e.Name = "item", fmt.Sprintf("seq %d head %d split %d", it.Seq, it.Head, r.split(it))
	e.Args = map[string]any{
		"sequence": it.Seq, "kv_head": it.Head, "split": r.split(it), "query": it.Query, "queries": it.NumQueries,
		"begin_key": it.Begin, "end_key": it.End, "keys": it.End - it.Begin,
	}
	return e
}
