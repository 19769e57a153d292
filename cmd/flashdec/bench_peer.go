package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/plainjson"
)

// peer is another implementation, in a program of its own that reads a request a
// line and answers each with a line: a [peerRequest], a [peerAnswer].
type peer struct {
	command *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
	gone    bool         // it ended before it was stopped
	end     func() error // ends its input and waits for it, once
}

// peerRequest asks for one step on a contiguous cache [kv_heads, len, dim], of
// one sequence and query.
type peerRequest struct {
	QHeads  int    `json:"q_heads"`
	KVHeads int    `json:"kv_heads"`
	Dim     int    `json:"dim"`
	Len     int    `json:"len"`
	KVDType string `json:"kv_dtype"`
	Threads int    `json:"threads"`
}

// peerModelRequest asks for a model's decode step that sees so many tokens.
type peerModelRequest struct {
	Model   string `json:"model"`
	Context int    `json:"context"`
	KVDType string `json:"kv_dtype"`
	Threads int    `json:"threads"`
}

// peerPromptRequest asks for a prompt of so many tokens to be read, from nothing on.
type peerPromptRequest struct {
	Model   string `json:"model"`
	Prompt  int    `json:"prompt"`
	KVDType string `json:"kv_dtype"`
	Threads int    `json:"threads"`
}

type peerAnswer struct {
	bench.Peer
	Seconds float64 `json:"seconds"`
	Missing string  `json:"missing"` // why it cannot compute this
}

// settle is how long a peer's threads may go on spinning after an answer, which
// what is measured next must not pay for.
const settle = 20 * time.Millisecond

// startPeer starts the program, whose words are separated by spaces. Without a
// command there is no peer, which has no implementation of anything.
func startPeer(command string, stderr io.Writer) (*peer, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil, nil
	}
	p := &peer{command: exec.Command(words[0], words[1:]...)}
	p.command.Stderr = stderr
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(out)
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("--peer: %w", err)
	}
	p.end = sync.OnceValue(func() error {
		_ = p.in.Close() // what it would have read is of no interest any more
		return p.command.Wait()
	})
	return p, nil
}

// stop ends the program by ending its input.
func (p *peer) stop() error {
	if p == nil {
		return nil
	}
	if p.gone {
		return nil // which has been told
	}
	return p.end()
}

// impl is the peer's way to compute a case, nil if it has none.
func (p *peer) impl(ctx context.Context, c *bench.Case, threads int) (*bench.Impl, error) {
	if p == nil || len(c.Lens) != 1 || c.PageSize != 0 || c.Window != 0 || c.Level != "" {
		return nil, nil
	}
	request := peerRequest{QHeads: c.Heads, KVHeads: c.KVHeads, Dim: c.Dim, Len: c.Lens[0], KVDType: c.DType.String(), Threads: threads}
	first, err := p.ask(ctx, request)
	if err != nil || first.Missing != "" {
		return nil, err
	}
	return first.Way(c, p.again(request)), nil
}

// modelWay is the peer's way to do with a model what a request asks for, nil if it has none.
func (p *peer) modelWay(ctx context.Context, request any, ours *bench.ModelSteps) (*bench.ModelSteps, error) {
	if p == nil {
		return nil, nil
	}
	first, err := p.ask(ctx, request)
	if err != nil || first.Missing != "" {
		return nil, err
	}
	theirs := *ours
	theirs.Impl, theirs.KVDType, theirs.KVBytes, theirs.Splits = first.Impl, first.KVDType, first.KVBytes, 0
	theirs.Step = p.again(request)
	return &theirs, nil
}

// again asks once more, and gives the peer's threads time to end.
func (p *peer) again(request any) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		answer, err := p.ask(ctx, request)
		time.Sleep(settle)
		return answer.Seconds, err
	}
}

// fell says what became of a program that cannot be spoken to any more.
func (p *peer) fell(why error) error {
	p.gone = true
	var code *exec.ExitError
	switch err := p.end(); {
	case errors.As(err, &code):
		return fmt.Errorf("--peer: %s ended without an answer: %w", printable(p.command.Path), code)
	case err != nil:
		return fmt.Errorf("--peer: %s: %w", printable(p.command.Path), err)
	case errors.Is(why, io.EOF) || errors.Is(why, syscall.EPIPE):
		return fmt.Errorf("--peer: %s ended without an answer, and without an error", printable(p.command.Path))
	}
	return fmt.Errorf("--peer: %w", why)
}

func (p *peer) ask(ctx context.Context, request any) (answer peerAnswer, err error) {
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	if err := json.NewEncoder(p.in).Encode(request); err != nil {
		return answer, p.fell(err)
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return answer, p.fell(err)
	}
	if err := plainjson.Unmarshal(line, &answer); err != nil {
		return answer, fmt.Errorf("--peer: answer %s: %w", printable(fmt.Sprintf("%.200q", bytes.TrimSpace(line))), err)
	}
	if answer.Missing == "" && (answer.Impl == "" || answer.KVBytes < 1 || !(answer.Seconds > 0)) {
		return answer, fmt.Errorf("--peer: answer %s lacks an impl, kv_bytes or seconds", printable(strings.TrimSpace(string(line))))
	}
	return answer, nil
}
