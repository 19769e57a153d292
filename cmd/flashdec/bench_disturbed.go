package main

import (
	"fmt"

	"github.com/flashdec/flashdec/internal/bench"
)

// disturbed marks a share whose ceiling cannot be trusted.
func disturbed(r bench.Row) string {
	if r.Disturbed() || beyond(r.Share) {
		return " ~"
	}
	return ""
}

// beyond tells that a share is printed as more than 100%: nothing takes less time than a part of it alone.
func beyond(share float64) bool { return share >= 1.005 }

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
	marked, spread, share := 0, 0.0, 0.0
	for _, x := range rows {
		if disturbed(x) != "" {
			marked, spread, share = marked+1, max(spread, x.Spread), max(share, x.Share)
		}
	}
	if marked == 0 {
		return ""
	}
	why := fmt.Sprintf("the bare read, or multiply-adds alone, of %s were disturbed themselves: their fastest round lay up to %s above the median",
		count(marked, "row"), percent(spread))
	if beyond(share) {
		why += fmt.Sprintf(", and shares up to %.0f%% say that they were slower than what is more work", 100*share)
	}
	return why + "; more rounds or a quieter machine tell more"
}
