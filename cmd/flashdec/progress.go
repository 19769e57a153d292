package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	drawEvery = 100 * time.Millisecond // a bar, at most
	tellEvery = 10 * time.Second       // a line, at most, the first after as long
)

// bar counts steps on stderr: it is drawn where that is a terminal, and told by a line
// now and then elsewhere, where a log may be kept. The zero value does nothing.
type bar struct {
	drawn *progressbar.ProgressBar
	told  *tally
}

func (t *terminal) bar(steps int, label string) bar {
	if steps < 2 {
		return bar{}
	}
	if !t.progress {
		return bar{told: &tally{to: t.errs, label: label, steps: steps, every: t.tells, last: time.Now()}}
	}
	return bar{drawn: progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(t.errs),
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetWidth(28),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(drawEvery),
		progressbar.OptionClearOnFinish(),
	)}
}

// step counts one.
func (b bar) step() { b.steps(1) }

// steps counts some. Progress that cannot be shown is no reason to stop the work.
func (b bar) steps(n int) {
	if b.drawn != nil {
		_ = b.drawn.Add(n)
	}
	if b.told != nil {
		b.told.add(n, time.Now())
	}
}

func (b bar) done() {
	if b.drawn != nil {
		_ = b.drawn.Finish()
	}
}

// tally is a bar's count for who reads a log. Work that ends soon says nothing.
type tally struct {
	to          io.Writer
	label       string
	done, steps int
	every       time.Duration
	last        time.Time // that a line was written
}

func (p *tally) add(n int, now time.Time) {
	p.done += n
	if p.done >= p.steps || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	fmt.Fprintf(p.to, "flashdec: %s: %d of %d\n", p.label, p.done, p.steps)
}
