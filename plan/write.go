package plan

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// String is the plan in two lines: why it is as it is, and how even.
func (p *Plan) String() string {
	return fmt.Sprintf("%s\nbalance %.3f (mean load / highest); %s of partial states\n",
		p.Reason, p.Balance(), count(p.Rows, "row"))
}

// WriteTo writes the plan as text: [Plan.String], how each query tile is cut,
// and what each processor gets under [Plan.Assign].
func (p *Plan) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	b.WriteString(p.String())
	p.writeCuts(&b)
	p.writeLoads(&b)
	return b.WriteTo(w)
}

// writeCuts writes a line a query tile; its KV heads are all cut alike.
func (p *Plan) writeCuts(w io.Writer) {
	first := make(map[int]int, len(p.Units)) // keys of a unit's first split
	for _, it := range p.Items {
		if it.Begin == p.Units[it.Unit].Begin {
			first[it.Unit] = it.End - it.Begin
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nsequence\tqueries\tkeys\tsplits\tkeys in the longest\t")
	for i := 0; i < len(p.Units); i += p.Config.NumKVHeads {
		u := &p.Units[i]
		fmt.Fprintf(t, "%d\t%d:%d\t%d:%d\t%d\t%d\t\n", u.Seq, u.Query, u.Query+u.NumQueries,
			u.Begin, u.End, u.NumSplits, first[i])
	}
	t.Flush()
}

// writeLoads writes a line a processor that has work.
func (p *Plan) writeLoads(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nprocessor\titems\tkeys\tload\t")
	lists := p.Assign()
	highest := 0
	for _, list := range lists {
		highest = max(highest, p.load(list))
	}
	for i, list := range lists {
		if len(list) == 0 {
			continue
		}
		keys := 0
		for _, j := range list {
			keys += p.Items[j].End - p.Items[j].Begin
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%.1f%%\t\n", i, len(list), keys, 100*float64(p.load(list))/float64(highest))
	}
	t.Flush()
}

// load is the work of a list of items.
func (p *Plan) load(list []int) int {
	sum := 0
	for _, i := range list {
		sum += p.Work(p.Items[i])
	}
	return sum
}
