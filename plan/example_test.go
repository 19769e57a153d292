package plan_test

import (
	"fmt"
	"log"

	"github.com/flashdec/flashdec/plan"
)

// What four processors of even speed take of two sequences, in the order of time, and how
// many states the merge of each sequence has.
func ExampleNew() {
	p, err := plan.New(plan.Config{
		Seqs:       []plan.Seq{{Len: 6000, NumQueries: 1}, {Len: 2000, NumQueries: 1}},
		NumKVHeads: 1, GroupSize: 4, Width: 4,
	})
	if err != nil {
		log.Fatal(err)
	}
	for i, items := range p.Assign() {
		for _, at := range items {
			it := p.Items[at]
			fmt.Printf("processor %d: sequence %d, keys %d to %d\n", i, it.Seq, it.Begin, it.End)
		}
	}
	fmt.Printf("processors are busy %.0f%% of the time\n", 100*p.Balance())
	for _, u := range p.Units {
		fmt.Printf("sequence %d: splits %d\n", u.Seq, u.NumSplits)
	}
	// Output:
	// processor 0: sequence 0, keys 0 to 2016
	// processor 1: sequence 0, keys 2016 to 4032
	// processor 2: sequence 1, keys 0 to 2000
	// processor 3: sequence 0, keys 4032 to 6000
	// processors are busy 99% of the time
	// sequence 0: splits 3
	// sequence 1: splits 1
}
