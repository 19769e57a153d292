// Command table makes the Markdown tables of the documents from recorded rows of
// flashdec bench --json:
//
//	go run ./bench/table [-suite NAME] [-json] bench/results/cpu-….jsonl…
//	go run ./bench/table -docs
//
// A table a suite and device has what each way reached, losses included; a last
// one the ratios that the rows hold. With -json, the ratios alone are printed,
// one JSON object a line. With -docs, docs/results.md and its pictures are made from
// everything in bench/results; run it in the repository's root. The exit code is 2 where
// that failed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/flashdec/flashdec/internal/bench"
)

// badInput is the exit code of bad input and usage, as flashdec's.
const badInput = 2

func main() {
	suite := flag.String("suite", "", "print this suite alone")
	ratios := flag.Bool("json", false, "print the ratios alone, as JSON")
	docs := flag.Bool("docs", false, "make docs/results.md and docs/results from bench/results")
	flag.Parse()
	if *docs == (flag.NArg() > 0) {
		fmt.Fprintln(os.Stderr, "table: want either files of recorded rows, or -docs alone")
		flag.Usage()
		os.Exit(badInput)
	}
	work := func() error { return run(os.Stdout, flag.Args(), *suite, *ratios) }
	if *docs {
		work = func() error { return writeDocs(".") }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(badInput)
	}
}

func run(w io.Writer, paths []string, suite string, ratios bool) error {
	rows, err := readAll(paths, suite)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("no rows of suite %q in %q", suite, paths)
	}
	if ratios {
		return writeJSON(w, bench.Ratios(rows))
	}
	for _, rows := range bench.BySuite(rows) {
		for _, t := range tables(rows) {
			if _, err := io.WriteString(w, t); err != nil {
				return err
			}
		}
	}
	_, err = io.WriteString(w, ratioTable(bench.Ratios(rows)))
	return err
}

func readAll(paths []string, suite string) ([]bench.Row, error) {
	var all []bench.Row
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		rows, err := bench.ReadRows(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, r := range rows {
			if suite == "" || r.Suite == suite {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

func writeJSON(w io.Writer, ratios []bench.Ratio) error {
	encoder := json.NewEncoder(w)
	for _, r := range ratios {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
