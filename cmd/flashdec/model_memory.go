package main

import (
	"fmt"
	"runtime"

	"github.com/flashdec/flashdec/model"
)

// tooLong explains why there is no memory for the keys and values of as many tokens as
// a runner was to have room for, and says how many there is memory for.
func (l *loaded) tooLong(opt model.Options, why error) error {
	tokens, whose := opt.MaxContext, "--max-context"
	if tokens == 0 {
		tokens, whose = l.model.Config().MaxContext, "the model's context"
	}
	bytes := func(tokens int) int { return modelKVBytes(l.model.Config(), opt.KeyType, tokens) }
	advice := "see --max-context and --kv-dtype"
	if fits := l.fits(opt, tokens, bytes); fits > 0 {
		advice = fmt.Sprintf("--max-context %d fits", fits)
	}
	return fmt.Errorf("%s: the keys and values of %s (%s) take %s as %v, more than there is memory for: %s; %w",
		quotePath(l.path), count(tokens, "token"), whose, byteCount(bytes(tokens)), opt.KeyType, advice, why)
}

// fits is the first half, quarter and so on of some tokens that there is memory for,
// in what is free and by trial; 0 where there is none, and on a GPU, where each trial
// would bring the weights there again.
func (l *loaded) fits(opt model.Options, tokens int, bytes func(tokens int) int) int {
	if l.device != nil {
		return 0
	}
	free := freeMemory()
	for tokens /= 2; tokens > 0; tokens /= 2 {
		if bytes(tokens) > free {
			continue
		}
		runtime.GC() // what the last trial reserved goes back when nothing refers to it
		opt.MaxContext = tokens
		if r, err := model.NewRunner(l.model, opt); err == nil && r.Close() == nil {
			return tokens
		}
	}
	return 0
}
