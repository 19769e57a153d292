package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/model"
)

// measurePrompt reports how fast a prompt of so many tokens is read, into a sequence of its own.
func (b *modelBench) measurePrompt(ctx context.Context, tokens int, p *peer, report *benchReport) error {
	r := b.ways[0].runner
	ids, logits := make([]int, tokens), make([]float32, r.Config().VocabSize)
	for i := range ids {
		ids[i] = i * 31 % len(logits) // what it says does not matter
	}
	ours := &bench.Prompt{ModelSteps: b.steps(b.ways[0], tokens), MultiplyAdds: b.loaded.model.MultiplyAdds(tokens)}
	ours.Step = func(ctx context.Context) (float64, error) { return readOnce(ctx, r, ids, logits) }
	ways := []*bench.Prompt{ours}
	request := peerPromptRequest{Model: b.cmd.Model, Prompt: tokens, KVDType: b.cmd.KVDType, Threads: b.threads}
	other, err := p.modelWay(ctx, request, &ours.ModelSteps)
	if err != nil {
		return err
	}
	if other != nil {
		ways = append(ways, &bench.Prompt{ModelSteps: *other, MultiplyAdds: ours.MultiplyAdds})
	}
	var peak func() float64
	if b.loaded.device == nil {
		peak = func() float64 { return bench.MultiplyAdds(b.threads) }
	}
	if err := bench.MeasurePrompts(ctx, ways, b.cmd.rounds(), peak); err != nil {
		return err
	}
	for _, w := range ways {
		if err := report.add(bench.PromptSuite, w.Row(b.threads, b.loaded.engine.Info())); err != nil {
			return err
		}
	}
	return nil
}

// readOnce reads a prompt into a sequence that is freed again, and returns the seconds that it took.
func readOnce(ctx context.Context, r *model.Runner, ids []int, logits []float32) (seconds float64, err error) {
	seq := r.NewSequence()
	start := time.Now()
	if err := seq.Feed(ctx, ids, logits, nil); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds(), seq.Free()
}

// promptTable is the table of prompts that a model read.
func (r *benchReport) promptTable(rows []bench.Row) {
	r.t.printf("reading a prompt\n\n")
	table := newTable("tokens", "threads", "", "tokens/s", "time", "of multiply-adds alone")
	last := bench.Row{}
	for _, x := range rows {
		tokens, threads := strconv.Itoa(x.Len), threadCell(x)
		if last.Len == x.Len && last.Threads == x.Threads {
			tokens, threads = "", ""
		}
		share := "–"
		if x.Peak > 0 {
			share = fmt.Sprintf("%.0f%% of %.1f G/s%s", 100*x.Share, x.Peak/1e9, disturbed(x))
		}
		table.AppendRow(row(tokens, threads, x.Impl, fmt.Sprintf("%.1f", x.TokenRate), bench.Duration(x.Seconds), share))
		last = x
	}
	r.t.printf("%s\n", render(table))
}
