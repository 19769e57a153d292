package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/plan"
)

// BenchmarkNew times the planning of batches from one sequence to 1024, of 8 KV
// heads with 4 query heads each.
func BenchmarkNew(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	long := lens(131072)
	for range 63 {
		long = append(long, plan.Seq{Len: 1024, NumQueries: 1})
	}
	for _, tc := range []struct {
		name string
		seqs []plan.Seq
	}{
		{"seqs=1", lens(131072)},
		{"seqs=64/lens=ragged", random(rng, 64, 8192)},
		{"seqs=64/lens=onelong", long},
		{"seqs=256/lens=ragged", random(rng, 256, 8192)},
		{"seqs=1024/lens=equal", equal(1024, 2048)},
		{"seqs=1024/lens=ragged", random(rng, 1024, 8192)},
	} {
		for _, width := range []int{2, 132} {
			for _, invariant := range []bool{false, true} {
				cfg := plan.Config{
					Seqs: tc.seqs, NumKVHeads: 8, GroupSize: 4,
					Width: width, Invariant: invariant,
				}
				b.Run(fmt.Sprintf("%s/width=%d/invariant=%t", tc.name, width, invariant), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						p, err := plan.New(cfg)
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(len(p.Items)), "items")
					}
				})
			}
		}
	}
}
