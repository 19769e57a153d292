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
	work      int    // multiply-adds
	perHelper int    // that one more worker is woken for
	tuned     string // where that is from, or may be
	after     int    // workers, where another step ended just before
}

// wakes is what a plan's step wakes on a backend that computes with what was found.
func (f tuned) wakes(info backend.Info, shape attn.Shape, p *plan.Plan) woken {
	if info.Name != "cpu" {
		return woken{}
	}
	w := woken{threads: info.Width, items: len(p.Items), perHelper: cmp.Or(f.HelperWork, cpu.HelperWork), tuned: f.advice()}
	w.workers, w.work = cpu.Helpers(shape, p.Items, w.threads, w.perHelper)
	w.after, _ = cpu.Helpers(shape, p.Items, w.threads, w.perHelper/2)
	w.workers, w.after = w.workers+1, w.after+1
	return w
}

// advice says what flashdec tune found for the work that wakes a thread, or that it might.
func (f tuned) advice() string {
	switch {
	case f.Entry.Tuned == "":
		return "flashdec tune measures it"
	case f.HelperWork == 0:
		return "built in: flashdec tune found nothing better on " + f.Entry.Tuned
	default:
		return "as flashdec tune found on " + f.Entry.Tuned
	}
}

// atLeast is w where so many worked: right after another step a thread is still awake, and half of the work is enough.
// Of other backends it is still nothing.
func (w woken) atLeast(worked int) woken {
	if w.threads > 0 {
		w.workers = max(w.workers, worked)
	}
	return w
}

// why says who computes, and why threads sleep that would have had an item; "" if none does.
func (w woken) why() string {
	if w.workers >= min(w.threads, w.items) {
		return ""
	}
	take := "take"
	if w.workers == 1 {
		take = "takes"
	}
	return fmt.Sprintf("%d of %s %s all %s: their %s are done before another would be awake; one more is woken for each %.2g million (%s)",
		w.workers, count(w.threads, "thread"), take, count(w.items, "item"), million(w.work), float64(w.perHelper)/1e6, w.tuned)
}

// whyAtFirst is [woken.why] of a step that is then repeated.
func (w woken) whyAtFirst() string {
	why := w.why()
	if why == "" || w.after <= w.workers {
		return why
	}
	return fmt.Sprintf("%s; %s: %d are called in the times after the first", why, halfIsEnough, w.after)
}

// whyAfter is [woken.why] of a step right after another, where so many worked: who is called may come too late.
func (w woken) whyAfter(worked int) string {
	seen := w.atLeast(worked)
	why := seen.why()
	if why == "" || w.after <= seen.workers {
		return why
	}
	return fmt.Sprintf("%s; %s: %d were called here, and %d came in time", why, halfIsEnough, w.after, seen.workers)
}

const halfIsEnough = "right after a step half of that is enough"
