package main

import (
	"cmp"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/plan"
)

// woken says how many of the CPU's threads a step is worth waking, and why no more.
// The zero value is that of other backends, where nobody sleeps.
type woken struct {
	threads   int // that there are
	workers   int // that are woken, the caller counted
	items     int
	work      int // multiply-adds
	perHelper int // that one more worker is woken for
}

// wakes is what a plan's step wakes on a backend that computes with what was found.
func (f tuned) wakes(info backend.Info, shape attn.Shape, p *plan.Plan) woken {
	if info.Name != "cpu" {
		return woken{}
	}
	w := woken{threads: info.Width, items: len(p.Items), perHelper: cmp.Or(f.HelperWork, cpu.HelperWork)}
	w.workers, w.work = cpu.Helpers(shape, p.Items, w.threads, w.perHelper)
	w.workers++
	return w
}

// why says why workers sleep that would have had an item; "" if none does.
func (w woken) why() string {
	last := min(w.threads, w.items) - 1
	if w.workers > last {
		return ""
	}
	who := fmt.Sprintf("worker %d", w.workers)
	if w.workers < last {
		who = fmt.Sprintf("workers %d to %d", w.workers, last)
	}
	return fmt.Sprintf("too little work to wake %s: %s, and a helper is worth waking for each %.2g million (see flashdec tune)",
		who, million(w.work), float64(w.perHelper)/1e6)
}
