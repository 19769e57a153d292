package main

import (
	"fmt"
	"time"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/gpu"
)

// generateReport is what generate --json prints.
type generateReport struct {
	IDs          []int   `json:"ids"` // the new ones
	Text         string  `json:"text"`
	Ended        string  `json:"ended"`
	Seed         *uint64 `json:"seed,omitempty"` // of the draws; nil: greedy
	PromptTokens int     `json:"prompt_tokens"`
	PromptRate   float64 `json:"prompt_tokens_per_second"`
	DecodeRate   float64 `json:"decode_tokens_per_second"` // of the tokens after the first, which the prompt gives
	// Attention is its share of a decode step's time: planning, storing keys and values, splits and merges. It
	// is 0 on a GPU, where a step is replayed as one graph.
	Attention   float64 `json:"attention_share"`
	KVDType     string  `json:"kv_dtype"`
	KVBytes     int     `json:"kv_bytes"`     // of the pages that were held
	KVTokens    int     `json:"kv_tokens"`    // stored in them, the prompt's counted
	WeightBytes int     `json:"weight_bytes"` // that one token reads
	Backend     string  `json:"backend"`
	Threads     int     `json:"threads"` // 0 on a GPU
	Splits      int     `json:"splits"`  // asked for; 0 lets the plan choose
}

// promptDone notes how the reading went.
func (r *generateReport) promptDone(read int, took time.Duration, runner *model.Runner) {
	r.PromptTokens, r.PromptRate = read, perSecond(read, took)
	r.KVBytes, r.KVTokens = runner.KVBytes(), read
}

// decodeDone notes how the generating went.
func (r *generateReport) decodeDone(took time.Duration, before model.Stats, runner *model.Runner, stored int) {
	after := runner.Stats()
	r.DecodeRate = perSecond(after.Tokens-before.Tokens, took)
	if s := after.Seconds - before.Seconds; s > 0 {
		r.Attention = (after.Attention - before.Attention) / s
	}
	r.KVBytes, r.KVTokens = runner.KVBytes(), stored
}

func perSecond(n int, took time.Duration) float64 {
	if n == 0 {
		return 0
	}
	return float64(n) / max(took.Seconds(), 1e-9)
}

// print ends a generation's output: with its object, or with a line break and, if asked for, its numbers.
func (cmd *generateCmd) print(t *terminal, g *generation) error {
	r := &g.report
	info := g.engine.Info()
	r.Text, r.KVDType, r.WeightBytes = g.text.String(), cmd.KVDType, g.runner.WeightBytes()
	r.Backend, r.Threads, r.Splits = info.Name, g.runner.Options().Threads, cmd.Splits
	if g.device != nil {
		r.Threads = 0
	}
	if r.IDs == nil {
		r.IDs = []int{}
	}
	if cmd.JSON {
		return t.emit(r)
	}
	if g.stream == nil {
		t.printf("%s\n", joinIDs(r.IDs))
	} else {
		t.printf("\n")
	}
	if err := t.flush(); err != nil {
		return err
	}
	if r.Ended == endContext {
		fmt.Fprintf(t.errs, "flashdec: the context is full after %s: see --max-context\n", count(r.KVTokens, "token"))
	}
	if cmd.Stats {
		r.printStats(t, g.loaded, len(g.prompt))
	}
	return nil
}

func joinIDs(ids []int) string {
	text := ""
	for i, id := range ids {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(id)
	}
	return text
}

func (r *generateReport) printStats(t *terminal, l *loaded, prompt int) {
	of := ""
	if r.PromptTokens < prompt {
		of = fmt.Sprintf("%d of ", r.PromptTokens)
	}
	fmt.Fprintf(t.errs, "\nprompt     %s%s, %.4g a second\n", of, count(prompt, "token"), r.PromptRate)
	rate := ""
	if r.DecodeRate > 0 { // the prompt gives the first token
		rate = fmt.Sprintf(", %.4g a second", r.DecodeRate)
	}
	fmt.Fprintf(t.errs, "decode     %s%s, ended by %s\n", count(len(r.IDs), "token"), rate, r.Ended)
	if l.device == nil {
		share := ""
		if r.DecodeRate > 0 {
			share = percent(r.Attention) + " of a decode step, "
		}
		fmt.Fprintf(t.errs, "attention  %son %s, %s\n", share, r.Backend, count(r.Threads, "thread"))
	} else {
		fmt.Fprintf(t.errs, "device     %s, a decode step in one graph\n", l.engine.Info().Device)
		if err := l.device.BLAS(); err != nil {
			fmt.Fprintf(t.errs, "prompts    are read several times as slowly as with cuBLAS: %v; %s may name it\n", err, gpu.BLASEnv)
		}
	}
	fmt.Fprintf(t.errs, "memory     %s of keys and values as %s reserved in pages, %s used\n", byteCount(r.KVBytes), r.KVDType, count(r.KVTokens, "token"))
	fmt.Fprintf(t.errs, "weights    %s read a token\n", byteCount(r.WeightBytes))
}
