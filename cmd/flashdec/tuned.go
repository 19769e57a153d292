package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/tune"
	"github.com/flashdec/flashdec/kv"
)

// tunedFlag turns off what flashdec tune has kept.
type tunedFlag struct {
	Tuned bool `help:"Use what flashdec tune found for this machine (the default)." default:"true" negatable:""`
}

// tuner looks constants up for a verb, and tells once of each file that is of no
// use.
type tuner struct {
	t   *terminal
	dir string // "" where nothing is to be looked up
	bad map[string]bool
}

// tuner begins the look-ups. A user without a folder for caches has nothing tuned.
func (f tunedFlag) tuner(t *terminal) *tuner {
	u := &tuner{t: t, bad: map[string]bool{}}
	if f.Tuned {
		u.dir, _ = tune.Dir()
	}
	return u
}

// tuned is what was found for a backend and a class; the zero value is nothing.
type tuned struct{ tune.Entry }

// source says where the constants come from; "" if nothing was found.
func (f tuned) source() string {
	if f.MinKeysPerSplit == 0 && f.HelperWork == 0 {
		return ""
	}
	return "tuned on " + f.Entry.Tuned
}

// find looks up what holds for a backend and a class. What cannot be read is as
// good as nothing, with a word on stderr.
func (u *tuner) find(info backend.Info, keyDim, valueDim, group int, types [2]kv.DType) tuned {
	if u.dir == "" {
		return tuned{}
	}
	e, _, err := tune.Load(u.dir, tune.KeyOf(info, keyDim, valueDim, group, types))
	if err != nil {
		if text := oneLine(err); !u.bad[text] {
			u.bad[text] = true
			fmt.Fprintf(u.t.errs, "flashdec: %s; going on with what is built in\n", text)
		}
		return tuned{}
	}
	return tuned{e}
}

// open opens the CPU that was asked about with the constants found.
func (f tuned) open(threads int) (backend.Backend, *flashdec.Engine, error) {
	b := cpu.New(cpu.Options{Threads: threads, HelperWork: f.HelperWork})
	eng, err := f.engine(b)
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return b, eng, nil
}

// on is an engine on a backend with the constants found. The CPU, which has one of its
// own, is closed and opened anew for that.
func (f tuned) on(b backend.Backend) (backend.Backend, *flashdec.Engine, error) {
	info := b.Info()
	if info.Name == "cpu" && f.source() != "" {
		if err := b.Close(); err != nil {
			return nil, nil, err
		}
		return f.open(info.Width)
	}
	eng, err := f.engine(b)
	return b, eng, err
}

// engine is an engine on a backend whose plans follow the constants found.
func (f tuned) engine(b backend.Backend) (*flashdec.Engine, error) {
	return flashdec.Open(flashdec.Options{Backend: b, MinKeysPerSplit: f.MinKeysPerSplit, MinKeysSource: f.source()})
}

// useTuned looks up what holds for the case, and has the decoder compute with it.
func (d *decoder) useTuned(u *tuner) (tuned, error) {
	info, view := d.engine.Info(), &d.cache.view
	found := u.find(info, d.c.shape.KeyDim, d.c.shape.ValueDim, d.c.shape.GroupSize(), [2]kv.DType{view.K.Type, view.V.Type})
	if d.found = found; found.source() == "" {
		return found, nil
	}
	b, eng, err := found.on(d.backend)
	if err != nil {
		return found, err
	}
	d.backend, d.engine = b, eng
	return found, nil
}

// tells is the constants in words.
func (f tuned) tells() string {
	switch {
	case f.Entry.Tuned == "":
		return ""
	case f.source() == "":
		return "on " + f.Entry.Tuned + ": what is built in is kept"
	}
	text := strings.TrimPrefix(f.source(), "tuned ")
	if f.MinKeysPerSplit > 0 {
		text += fmt.Sprintf(", splits of at least %s", count(f.MinKeysPerSplit, "key"))
	}
	if f.HelperWork > 0 {
		text += fmt.Sprintf(", one more thread for each %s", million(f.HelperWork))
	}
	return text
}

// million is a number of multiply-adds.
func million(n int) string {
	if n < 100_000 { // less than a tenth of one
		return count(n, "multiply-add")
	}
	return fmt.Sprintf("%.2g million multiply-adds", float64(n)/1e6)
}
