package main

import (
	"fmt"

	"github.com/flashdec/flashdec/internal/bench"
)

// disturbed marks a share whose ceiling cannot be trusted.
func disturbed(r bench.Row) string {
	if r.Disturbed() {
		return " ~"
	}
	return ""
}

// noteDisturbed explains the marks of a table, once.
func (r *benchReport) noteDisturbed() {
	if why := whyDisturbed(r.rows); why != "" {
		r.t.printf("\n%s\n", fold("~ "+why, 0))
	}
}

// tellDisturbed says the same beside what machines read, which has no marks.
func (r *benchReport) tellDisturbed() {
	if why := whyDisturbed(r.rows); why != "" {
		fmt.Fprintf(r.t.errs, "flashdec: %s\n", why)
	}
}

// whyDisturbed says how far off the ceilings of some rows may be; "" where all can be trusted.
func whyDisturbed(rows []bench.Row) string {
	marked, spread := 0, 0.0
	var most bench.Row
	for _, x := range rows {
		if !x.Disturbed() {
			continue
		}
		marked, spread = marked+1, max(spread, x.Spread)
		if x.Share > most.Share {
			most = x
		}
	}
	if marked == 0 {
		return ""
	}
	why := fmt.Sprintf("the bare read, or multiply-adds alone, of %s were disturbed themselves: their fastest round lay up to %s above the median",
		count(marked, "row"), percent(spread))
	if most.Beyond() {
		why += fmt.Sprintf(", and shares up to %.0f%% say that they were slower than what is more work", 100*most.Share)
	}
	return why + "; more rounds or a quieter machine tell more"
}
