package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/chart"
	"github.com/flashdec/flashdec/internal/whole"
)

// Where the documents lie, from the repository's root.
const (
	resultsDir = "bench/results"
	resultsDoc = "docs/results.md"
	plotsDir   = "docs/results"
)

// writeDocs makes the documents anew, and takes pictures away that no row asks for.
func writeDocs(root string) error {
	files, err := makeDocs(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, plotsDir), 0o777); err != nil {
		return err
	}
	for name, text := range files {
		err := whole.Write(filepath.Join(root, name), func(w io.Writer) error { _, err := w.Write(text); return err })
		if err != nil {
			return err
		}
	}
	old, err := filepath.Glob(filepath.Join(root, plotsDir, "*.svg"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, made := files[plotsDir+"/"+filepath.Base(path)]; !made {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// recorded are all rows, with the files that they are from.
type recorded struct {
	rows  []bench.Row
	files map[group][]string
}

// group is what one table has rows of.
type group struct{ device, suite string }

func groupOf(r bench.Row) group { return group{r.Device, r.Suite} }

func readRecorded(root string) (recorded, error) {
	all := recorded{files: make(map[group][]string)}
	paths, err := filepath.Glob(filepath.Join(root, resultsDir, "*.jsonl"))
	if err != nil {
		return all, err
	}
	for _, path := range paths {
		rows, err := readAll([]string{path}, "")
		if err != nil {
			return all, err
		}
		for _, r := range rows {
			name := resultsDir + "/" + filepath.Base(path)
			if g := groupOf(r); !slices.Contains(all.files[g], name) {
				all.files[g] = append(all.files[g], name)
			}
		}
		all.rows = append(all.rows, rows...)
	}
	if len(all.rows) == 0 {
		return all, fmt.Errorf("no recorded rows in %s", resultsDir)
	}
	shareCeilings(all.rows)
	return all, nil
}

// shareCeilings gives ways that were measured without a bare read that of the same
// case, which is of the same bytes on the same device.
func shareCeilings(rows []bench.Row) {
	type place struct {
		group
		name    string
		threads int
	}
	ceilings := make(map[place][2]float64) // and its spread
	at := func(r bench.Row) place { return place{groupOf(r), chart.Label(r), r.Threads} }
	for _, r := range rows {
		if r.Ceiling > 0 {
			ceilings[at(r)] = [2]float64{r.Ceiling, r.Spread}
		}
	}
	for i := range rows {
		if r := &rows[i]; r.Ceiling == 0 {
			if r.Ceiling, r.Spread = ceilings[at(*r)][0], ceilings[at(*r)][1]; r.Ceiling > 0 {
				r.Share = r.Rate / r.Ceiling
			}
		}
	}
}

const docsHead = `# Results

<!-- Made by go run ./bench/table -docs from bench/results. Do not edit: a test makes it again and compares. -->

What was recorded, losses included: tables and pictures of every file in [bench/results](../bench/results/README.md), made by one command:

    go run ./bench/table -docs

Rates are of keys and values read; shares are of a bare read of the same bytes by the same threads just before, medians of rounds, marked ~ where that read was disturbed. Queries beside keys in bf16, e4m3 and e5m2 are such as bf16 holds, as in models that compute in it. Ways: *flashdec*; the same
*unsplit*, one item a sequence and KV head (on a GPU by blocks of four warps, as with all forced numbers of splits); *direct*, the softmax in float64; *plain*, a loop as one writes it in Go; and peers by name. Pictures leave out the two
slow ones, whose bars would not show. To measure another machine and to draw what it did:

    go run ./cmd/flashdec bench --suite types,lengths,pages --json --plot results.svg >results.jsonl

`

// makeDocs is the text of each document, by its path.
func makeDocs(root string) (map[string][]byte, error) {
	all, err := readRecorded(root)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	text := &strings.Builder{}
	text.WriteString(docsHead)
	text.WriteString(contents(all.rows))
	for _, device := range distinct(all.rows, func(r bench.Row) string { return r.Device }) {
		fmt.Fprintf(text, "## %s\n\n", device)
		its := slices.DeleteFunc(slices.Clone(all.rows), func(r bench.Row) bool { return r.Device != device })
		for _, rows := range bench.BySuite(its) {
			slices.SortStableFunc(rows, func(a, b bench.Row) int { return cmp.Compare(a.Threads, b.Threads) })
			text.WriteString(tableOf(rows))
			from := all.files[groupOf(rows[0])]
			if err := drawSuite(files, text, rows, from); err != nil {
				return nil, err
			}
		}
	}
	text.WriteString(ratioTable(bench.Ratios(all.rows)))
	files[resultsDoc] = []byte(text.String())
	files[readme], err = readmeMade(root)
	return files, err
}

// contents lists the devices and their suites.
func contents(rows []bench.Row) string {
	text := ""
	for _, device := range distinct(rows, func(r bench.Row) string { return r.Device }) {
		its := slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Device != device })
		suites := distinct(its, func(r bench.Row) string { return r.Suite })
		for i, suite := range suites {
			suites[i] = fmt.Sprintf("[%s](#%s)", suite, anchor(suite+" on "+device))
		}
		text += fmt.Sprintf("- [%s](#%s): %s\n", device, anchor(device), strings.Join(suites, ", "))
	}
	if len(bench.Ratios(rows)) > 0 {
		text += "- [Ratios](#ratios): quantised types, pages, invariant mode and peers, each against its counterpart\n"
	}
	return text + "\n"
}

// drawSuite draws the pictures of one suite on one device, and places them in the text.
func drawSuite(files map[string][]byte, text *strings.Builder, rows []bench.Row, from []string) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Impl == "direct" || r.Impl == "plain" })
	add := func(name, what string, draw func(io.Writer, string, []bench.Row) error, rows []bench.Row) error {
		var picture bytes.Buffer
		if err := draw(&picture, "svg", rows); err != nil {
			return err
		}
		files[plotsDir+"/"+name+".svg"] = picture.Bytes()
		fmt.Fprintf(text, "![%s](results/%s.svg)\n\nFrom %s, by `go run ./bench/table -docs`.\n\n", what, name, strings.Join(from, " and "))
		return nil
	}
	r := rows[0]
	for _, n := range distinct(rows, func(r bench.Row) int { return r.Threads }) {
		part := slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Threads != n })
		name, what := slug(r.Suite+" "+r.Device), fmt.Sprintf("%s on %s", r.Suite, r.Device)
		if n > 0 {
			name, what = fmt.Sprintf("%s-%d", name, n), what+fmt.Sprintf(", threads: %d", n)
		}
		if against := map[string]string{bench.ModelSuite: "context", bench.PromptSuite: "a prompt's length"}[r.Suite]; against != "" {
			for _, model := range distinct(part, func(r bench.Row) string { return r.Model }) {
				its := slices.DeleteFunc(slices.Clone(part), func(r bench.Row) bool { return r.Model != model })
				if err := add(slug(fmt.Sprintf("%s %s", name, model)), fmt.Sprintf("%s, %s: tokens a second against %s", model, what, against), chart.Write, its); err != nil {
					return err
				}
			}
			continue
		}
		if shape := manyLengths(part); shape != nil {
			if err := add(name+"-times", what+": time against length", chart.WriteTimes, shape); err != nil {
				return err
			}
		}
		if err := add(name, what+": shares of the bare read", chart.WriteShares, part); err != nil {
			return err
		}
	}
	return nil
}

// manyLengths are the rows of the shape that was measured at most lengths, nil if that
// is fewer than four.
func manyLengths(rows []bench.Row) []bench.Row {
	type shape struct {
		batch, qHeads, kvHeads, dim, page int
		dtype                             string
	}
	of := func(r bench.Row) shape { return shape{r.Batch, r.QHeads, r.KVHeads, r.KeyDim, r.PageSize, r.KVDType} }
	var most []bench.Row
	lengths := 3
	for _, s := range distinct(rows, of) {
		its := slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return of(r) != s })
		if n := len(distinct(its, func(r bench.Row) int { return r.Len })); n > lengths {
			most, lengths = its, n
		}
	}
	return most
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// anchor is a heading's place in a page: lower case, its spaces as hyphens, without
// what is neither letter nor digit.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// slug is a text as a file's name.
func slug(s string) string {
	return strings.Trim(notName.ReplaceAllString(strings.ToLower(s), "-"), "-")
}
