package model_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
)

// BenchmarkForward decodes a token of the model that FLASHDEC_SMOLLM names after texts of some lengths, and after
// each the same goroutines read as many bytes as its weights, keys and values have. It reports tokens a second,
// attention's part, and the share of the read's rate.
func BenchmarkForward(b *testing.B) {
	path := os.Getenv("FLASHDEC_SMOLLM")
	if path == "" {
		b.Skip("FLASHDEC_SMOLLM names no model")
	}
	m := openModel(b, path)
	for _, threads := range []int{1, 2} {
		for _, length := range []int{128, 2048} {
			b.Run(fmt.Sprintf("len=%d/threads=%d", length, threads), func(b *testing.B) { benchForward(b, m, length, threads) })
		}
	}
}

func benchForward(b *testing.B, m *model.Model, length, threads int) {
	r := newRunner(b, m, model.Options{KeyType: kv.F16, ValueType: kv.F16, Threads: threads})
	seq := r.NewSequence()
	ctx := context.Background()
	if err := seq.Feed(ctx, make([]int, length), nil, nil); err != nil {
		b.Fatal(err)
	}
	logits, before := make([]float32, r.Config().VocabSize), r.Stats()
	bytes := m.WeightBytes() + r.KVBytes()
	memory := make([]byte, bytes)
	for i := range memory {
		memory[i] = byte(i)
	}
	var ours, reads []time.Duration
	b.SetBytes(int64(bytes))
	for b.Loop() {
		start := time.Now()
		if err := r.Forward(ctx, model.Part{Seq: seq, IDs: []int{1}, Logits: logits}); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(start))
		b.StopTimer()
		reads = append(reads, readAll(memory, threads))
		b.StartTimer()
	}
	stats := r.Stats()
	slices.Sort(ours)
	slices.Sort(reads)
	step, read := ours[len(ours)/2].Seconds(), reads[len(reads)/2].Seconds()
	b.ReportMetric(1/step, "tokens/s")
	b.ReportMetric(100*read/step, "share-%")
	b.ReportMetric(100*(stats.Attention-before.Attention)/(stats.Seconds-before.Seconds), "attention-%")
}

// readAll reads memory once, every goroutine a part of it.
func readAll(memory []byte, threads int) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	part := len(memory) / threads
	for i := range threads {
		wg.Go(func() { simd.ReadSum(memory[i*part : (i+1)*part]) })
	}
	wg.Wait()
	return time.Since(start)
}
