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

// BenchmarkPrompt reads prompts of some lengths with the model that FLASHDEC_SMOLLM names. It reports tokens a second
// and attention's part.
func BenchmarkPrompt(b *testing.B) {
	path := os.Getenv("FLASHDEC_SMOLLM")
	if path == "" {
		b.Skip("FLASHDEC_SMOLLM names no model")
	}
	m := openModel(b, path)
	for _, length := range []int{128, 512, 2048, 6000} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("len=%d/threads=%d", length, threads), func(b *testing.B) { benchPrompt(b, m, length, threads) })
		}
	}
}

func benchPrompt(b *testing.B, m *model.Model, length, threads int) {
	r := newRunner(b, m, model.Options{KeyType: kv.F16, ValueType: kv.F16, Threads: threads})
	ctx, ids, logits := context.Background(), make([]int, length), make([]float32, r.Config().VocabSize)
	for i := range ids {
		ids[i] = i * 31 % r.Config().VocabSize
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		seq := r.NewSequence()
		if err := seq.Feed(ctx, ids, logits, nil); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if err := seq.Free(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	stats := r.Stats()
	b.ReportMetric(float64(length)/took[len(took)/2].Seconds(), "tokens/s")
	b.ReportMetric(100*stats.Attention/stats.Seconds, "attention-%")
}
