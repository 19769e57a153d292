package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
)

// benchReport prints rows in the form that was asked for: JSON as they come, a
// table at the end.
type benchReport struct {
	cmd   *benchCmd
	t     *terminal
	tuner *tuner
	rows  []bench.Row
	old   []bench.Row // to compare with
}

func (r *benchReport) add(suite string, row bench.Row) error {
	_, row.Commit = version()
	row.Suite, row.Command = suite, benchCommand()
	r.rows = append(r.rows, row)
	if r.cmd.JSON {
		return r.t.emit(row)
	}
	return nil
}

// addWays adds the row of each way that was measured.
func (r *benchReport) addWays(run *benchRun, ways *benchWays) error {
	for _, im := range ways.list[1:] {
		if im.Rounds() == 0 {
			continue
		}
		row := im.Row(run.c.Name, run.threads, ways.info)
		row.GPUs = ways.gpus
		if im.Splits > 0 { // one of this project's ways
			row.Tuned = ways.tuned
		}
		if err := r.add(run.suite, row); err != nil {
			return err
		}
	}
	return nil
}

// benchCommand is the command line that measured a row. Of absolute paths it keeps
// the last name: the rest is this machine's alone.
func benchCommand() string {
	words := []string{"flashdec"}
	for _, word := range os.Args[1:] {
		parts := strings.Split(word, " ")
		for i, part := range parts {
			if filepath.IsAbs(part) {
				parts[i] = filepath.Base(part)
			}
		}
		if word = strings.Join(parts, " "); len(parts) > 1 {
			word = strconv.Quote(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// end reports what has been measured, if anything.
func (r *benchReport) end() error {
	if len(r.rows) == 0 {
		return nil
	}
	switch {
	case r.cmd.CSV:
		if err := r.csv(); err != nil {
			return err
		}
		r.tellDisturbed()
	case r.cmd.JSON:
		r.tellDisturbed()
	default:
		r.table()
	}
	if r.cmd.Compare != "" {
		r.compare()
	}
	if r.cmd.Plot != "" {
		return drawBench(r.cmd.Plot, r.rows)
	}
	return nil
}

func (r *benchReport) table() {
	kernels := names(r.rows, func(r bench.Row) string { return r.Kernel })
	if r.rows[0].Model != "" {
		r.modelTables(strings.Join(kernels, " and "))
		return
	}
	r.t.printf("%s, %s kernels, %s of keys and values at most\n", r.rows[0].Device, strings.Join(kernels, " and "), byteCount(r.cmd.bytes()))
	for _, rows := range bench.BySuite(r.rows) {
		r.suiteTable(rows)
	}
	if slices.ContainsFunc(r.rows, func(r bench.Row) bool { return r.Note != "" }) {
		r.t.printf("\n* on so many keys only, as the whole case would take too long: compare GB/s.\n")
	}
	for _, text := range names(r.rows, func(r bench.Row) string { return r.Tuned }) {
		if text != "" {
			r.t.printf("\ntuned %s\n", text)
		}
	}
	r.noteDisturbed()
}

// suiteTable is the table of one suite.
func (r *benchReport) suiteTable(rows []bench.Row) {
	r.t.printf("\n%s\n\n", rows[0].Suite)
	heads := []any{"case", "threads", "", "time", "GB/s", "of ceiling"}
	compared := slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Times > 0 })
	if compared {
		heads = append(heads, "keys/s")
	}
	table := newTable(heads...)
	last := bench.Row{}
	for _, x := range rows {
		name, threads := x.Case, threadCell(x)
		if last.Case == x.Case && last.Threads == x.Threads {
			name, threads = "", ""
		}
		cells := []any{
			name, threads, x.Impl, timeOf(x), fmt.Sprintf("%.2f", x.Rate/1e9),
			fmt.Sprintf("%.0f%% of %.1f%s", 100*x.Share, x.Ceiling/1e9, disturbed(x)),
		}
		if compared {
			cells = append(cells, timesOf(x))
		}
		table.AppendRow(row(cells...))
		last = x
	}
	r.t.printf("%s\n", render(table))
	if compared {
		r.t.printf("\nkeys/s: as a multiple of those of %s, in the same rounds.\n", bench.BaseOf(rows[0].Suite))
	}
}

// timesOf is how a row compares with the one that was measured in turns with it.
func timesOf(r bench.Row) string {
	if r.Times == 0 {
		return ""
	}
	return fmt.Sprintf("× %.2f", r.Times)
}

// modelTables are the tables of a model: prompts that it read, and its decode steps.
func (r *benchReport) modelTables(kernels string) {
	first := r.rows[0]
	r.t.printf("%s, %s read a token beside %s keys and values\n%s, %s kernels\n", printable(first.Model), byteCount(int(first.WeightBytes)), first.KVDType, first.Device, kernels)
	for _, rows := range bench.BySuite(r.rows) {
		r.t.printf("\n")
		if rows[0].Suite == bench.PromptSuite {
			r.promptTable(rows)
		} else {
			r.modelTable(rows)
		}
	}
	r.noteDisturbed()
}

// modelTable is the table of a model's decode steps.
func (r *benchReport) modelTable(rows []bench.Row) {
	r.t.printf("decoding\n\n")
	table := newTable("context", "threads", "", "tokens/s", "time", "GB/s", "of ceiling")
	last := bench.Row{}
	for _, x := range rows {
		context, threads := strconv.Itoa(x.Len), threadCell(x)
		if last.Len == x.Len && last.Threads == x.Threads {
			context, threads = "", ""
		}
		table.AppendRow(row(context, threads, x.Impl, fmt.Sprintf("%.1f", x.TokenRate), bench.Duration(x.Seconds), fmt.Sprintf("%.2f", x.Rate/1e9),
			fmt.Sprintf("%.0f%% of %.1f%s", 100*x.Share, x.Ceiling/1e9, disturbed(x))))
		last = x
	}
	r.t.printf("%s\n", render(table))
}

func names(rows []bench.Row, name func(bench.Row) string) []string {
	var all []string
	for _, r := range rows {
		if n := name(r); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// threadCell is a row's number of threads. A GPU has none.
func threadCell(r bench.Row) string {
	if r.Threads == 0 {
		return "–"
	}
	return strconv.Itoa(r.Threads)
}

// timeOf is a row's time. That of a part of the case would mislead: in its place
// stands how large the part is.
func timeOf(r bench.Row) string {
	if r.Note != "" {
		return count(r.Keys, "key") + "*"
	}
	return bench.Duration(r.Seconds) + " "
}

// csv writes the fields of the JSON rows, in their order.
func (r *benchReport) csv() error {
	w := csv.NewWriter(r.t.out)
	header := false
	for _, x := range r.rows {
		names, values := fields(x)
		if !header {
			_ = w.Write(names) // Error tells below
			header = true
		}
		_ = w.Write(values)
	}
	w.Flush()
	if err := r.t.flush(); err != nil {
		return err
	}
	return w.Error()
}

// fields are a row's JSON names and values, those that JSON leaves out where empty among
// them.
func fields(x bench.Row) (names, values []string) {
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names, values = append(names, name), append(values, fmt.Sprint(v.Field(i)))
	}
	return names, values
}

// compare prints what changed: below the table, or beside what machines read.
func (r *benchReport) compare() {
	changes := bench.Compare(r.old, r.rows)
	text := &strings.Builder{}
	table := newTable("suite", "case", "threads", "", "before", "now", "time × ceiling", "noise")
	shown := 0
	for _, c := range changes {
		if !c.Beyond() {
			continue
		}
		shown++
		x := c.After
		table.AppendRow(row(x.Suite, x.Case, threadCell(x), x.Impl, fmt.Sprintf("%.0f%%", 100*c.Before.Share), fmt.Sprintf("%.0f%%", 100*x.Share),
			fmt.Sprintf("%+.0f%%", 100*(c.Ratio-1)), fmt.Sprintf("±%.0f%%", 100*c.Noise)))
	}
	if len(changes) == 0 {
		fmt.Fprintf(text, "\nNothing is compared: %s has no row of what was measured now.\n", printable(r.cmd.Compare))
	} else {
		fmt.Fprintf(text, "\n%s of %d compared with %s changed beyond the noise.\n", count(shown, "row"), len(changes), printable(r.cmd.Compare))
	}
	if alone, gone := len(r.rows)-len(changes), len(r.old)-len(changes); alone+gone > 0 {
		fmt.Fprintf(text, "%s\n", fold(fmt.Sprintf("Not compared: %s measured now that the record lacks, %d of the record's that were not measured now.", count(alone, "row"), gone), 0))
	}
	if shown > 0 {
		fmt.Fprintf(text, "\n%s\ntime × ceiling is the time in units of its own run's bare read of the same bytes: a\nmachine that reads slower today changes nothing in it. Noise is how far rounds lay\napart in both runs.\n", render(table))
	}
	if r.cmd.JSON || r.cmd.CSV {
		fmt.Fprint(r.t.errs, text)
		return
	}
	r.t.printf("%s", text)
}
