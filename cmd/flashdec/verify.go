package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flashdec/flashdec/internal/filemap"
)

type verifyCmd struct {
	Paths  []string `arg:"" name:"file|dir" help:"Files with q, k and v, or folders with such files in them (.safetensors and .npz)."`
	Splits string   `help:"Cut every sequence into N splits, or into every number from 1 to 64 (all). Without it, or with 0, the plan chooses." placeholder:"all|N"`
	engineFlags
	JSON bool `name:"json" help:"Print one JSON object a file, and one for all."`

	counts   int      // from Splits
	headed   bool     // the columns are named
	names    int      // columns of the files' names
	unjudged unjudged // the files' own answers
}

// allCounts is the most splits that --splits all tries.
const allCounts = 64

func (*verifyCmd) Help() string {
	return `A file passes when the result lies within the limits of docs/NUMERICS.md from the
direct float64 softmax, and from the file's own out and lse where it has them. out
and lse are the largest absolute differences from the direct softmax over what is
finite in both, – where nothing is; limit is what out's may be; rules are those that
the file asks for. Rows of NaN and infinities, which are right where the direct softmax
has them, too, are counted below. Where --kv-dtype rounds keys or values, the direct
softmax is of the rounded ones, and the file's own out and lse, which are of the
others, are not judged: a last line says so.
The exit code is 2 when some file could not be read, and else 1 when one failed. In
JSON, what could not be read has file, ok and error, and nothing measured.
Files in folders that have nothing of a case, such as a model's weights, are skipped.

Example, with every number of splits from 1 to 64 and pages of 16 keys:

    flashdec verify testdata/golden/attention --splits all --page-size 16
`
}

// Validate is called by kong once the flags are read.
func (cmd *verifyCmd) Validate() error {
	switch cmd.Splits {
	case "":
	case "all":
		cmd.counts = allCounts
	default:
		n, err := strconv.Atoi(cmd.Splits)
		if err != nil || n < 0 {
			return fmt.Errorf("--splits is %q, want all, a number of at least 1, or 0 to let the plan choose", cmd.Splits)
		}
	}
	return cmd.engineFlags.Validate()
}

// fileReport is what verify prints of a file.
type fileReport struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	distances
	Rules     string  `json:"rules"`        // that applied, in words
	Splits    int     `json:"splits"`       // the most of any unit, over all runs
	Runs      int     `json:"split_counts"` // how many numbers of splits were run
	Backend   string  `json:"backend"`
	Kernel    string  `json:"kernel"`
	KVDType   string  `json:"kv_dtype"`
	PageSize  int     `json:"page_size"` // 0: used in place
	Invariant bool    `json:"invariant"`
	Seconds   float64 `json:"seconds"`

	err error // the file could not be checked: nothing else is known of it
}

// unreadReport is what verify prints of a file that could not be checked, of which there are no distances.
type unreadReport struct {
	File  string `json:"file"`
	OK    bool   `json:"ok"` // false
	Error string `json:"error"`
}

// skippedReport is what verify prints of a file in a folder that is no case.
type skippedReport struct {
	File    string `json:"file"`
	Skipped string `json:"skipped"` // why
}

// totalReport is verify's last line.
type totalReport struct {
	Total   int `json:"total"` // that were checked
	Failed  int `json:"failed"`
	Skipped int `json:"skipped,omitempty"`
}

func (cmd *verifyCmd) Run(ctx context.Context, t *terminal) error {
	files, err := caseFiles(cmd.Paths)
	if err != nil {
		return err
	}
	cmd.names = namesWidth(files, t.watched)
	start := time.Now()
	var unread unreadFiles
	total := totalReport{}
	var bar bar
	if !t.watched { // else the lines themselves show how far it is
		bar = t.bar(len(files), "files")
	}
	defer bar.done()
	for _, file := range files {
		r := cmd.verify(ctx, t, file.path)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bar.step()
		if file.found && errors.Is(r.err, errNoCase) {
			total.Skipped++
			if err := cmd.skip(t, r); err != nil {
				return err
			}
			continue
		}
		total.Total++
		cmd.unjudged.add(r)
		if !r.OK {
			total.Failed++
		}
		unread.add(r.err)
		if err := cmd.report(t, r, len(files)); err != nil {
			return err
		}
	}
	if total.Total == 0 {
		return fmt.Errorf("%s: the files there have none of the tensors q, k and v, want attention cases", strings.Join(cmd.Paths, ", "))
	}
	if err := cmd.sum(t, total, time.Since(start)); err != nil {
		return err
	}
	if unread.n == 0 && total.Failed > 0 {
		return errCheckFailed
	}
	return unread.err()
}

// unreadFiles are those that could not be read: the first one's error, and how many.
type unreadFiles struct {
	first error
	n     int
}

func (u *unreadFiles) add(err error) {
	if err == nil {
		return
	}
	if u.n++; u.n == 1 {
		u.first = err
	}
}

func (u *unreadFiles) err() error {
	if u.n < 2 {
		return u.first
	}
	return fmt.Errorf("%w; nor could %s be read", u.first, count(u.n-1, "more file"))
}

// report prints a file's line. That of a single file that cannot be read is the error
// itself.
func (cmd *verifyCmd) report(t *terminal, r *fileReport, files int) error {
	switch {
	case cmd.JSON && r.err != nil:
		return t.emit(unreadReport{File: r.File, Error: oneLine(r.err)})
	case cmd.JSON:
		return t.emit(r)
	case r.err != nil && files == 1:
		return nil
	}
	if r.err == nil && !cmd.headed {
		cmd.headed = true
		t.printf("%s\n", verifyHeader(cmd.names))
	}
	t.printf("%s\n", r.line(cmd.names))
	return t.flush()
}

// skip prints the line of a file that is no case.
func (cmd *verifyCmd) skip(t *terminal, r *fileReport) error {
	if cmd.JSON {
		return t.emit(skippedReport{r.File, errNoCase.Error()})
	}
	t.printf("skip  %s\n", oneLine(r.err))
	return t.flush()
}

func (cmd *verifyCmd) sum(t *terminal, total totalReport, took time.Duration) error {
	if cmd.JSON {
		return t.emit(total)
	}
	skipped := ""
	if total.Skipped > 0 {
		skipped = fmt.Sprintf(", %d skipped", total.Skipped)
	}
	if total.Total > 1 || skipped != "" {
		t.printf("%s, %d failed%s, %.1f s\n", count(total.Total, "file"), total.Failed, skipped, took.Seconds())
	}
	if text := cmd.unjudged.String(); text != "" {
		t.printf("%s\n", fold(text, 0))
	}
	return nil
}

// verify checks one file with every number of splits that is asked for.
func (cmd *verifyCmd) verify(ctx context.Context, t *terminal, path string) *fileReport {
	r := &fileReport{File: path, Invariant: cmd.Invariant}
	start := time.Now()
	r.err = cmd.check(ctx, t, path, r)
	r.OK = r.OK && r.err == nil
	r.Seconds = time.Since(start).Seconds()
	return r
}

// longFile is the size of keys and values from which a file gets a bar of its own.
const longFile = 32 << 20

func (cmd *verifyCmd) check(ctx context.Context, t *terminal, path string, r *fileReport) (err error) {
	c, err := openCase(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	c.warn(t)
	r.Rules = c.rulesLine()
	d, err := newDecoder(ctx, c, &cmd.engineFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	info := d.engine.Info()
	r.Backend, r.Kernel, r.KVDType, r.PageSize = info.Name, info.Kernel, d.cache.types(), d.cache.pageSize
	j := &judge{c: c, from: d.cache.source(c), threads: cmd.threads(), keep: cmd.counts > 1, lossy: d.cache.lossy}
	var (
		all judgement
		bar bar
		got decoded
	)
	counts := cmd.splitCounts(c)
	if t.watched && c.kvBytes() >= longFile {
		bar = t.bar(len(d.chunks)*len(counts), "splits")
	}
	defer bar.done()
	for _, chunk := range d.chunks {
		d.take(&got, chunk)
		var worst judgement
		for _, splits := range counts {
			if err := d.decode(ctx, &got, splits, cmd.Invariant); err != nil {
				return err
			}
			judged, err := j.judge(ctx, &got)
			if err != nil {
				return err
			}
			worst.worst(judged)
			bar.step()
			r.Splits, r.Runs = max(r.Splits, got.splits), len(counts)
		}
		all.add(worst)
	}
	r.OK, r.distances = all.ok(), all.distances()
	return nil
}

// splitCounts are the numbers of splits to run, 0 letting the plan choose.
func (cmd *verifyCmd) splitCounts(c *decodeCase) []int {
	if cmd.counts == 0 {
		n, _ := strconv.Atoi(cmd.Splits) // Validate has read it
		return []int{n}
	}
	longest := 1
	if len(c.lens) > 0 {
		longest = max(1, slices.Max(c.lens))
	}
	var counts []int
	for n := range min(cmd.counts, longest) {
		counts = append(counts, n+1)
	}
	return counts
}

// nameColumns is how wide verify's column of names is where someone watches.
const nameColumns = 32

// namesWidth is how wide it is for some files: a pipe or file has their names whole.
func namesWidth(files []caseFile, watched bool) int {
	width := nameColumns
	for _, f := range files {
		if !watched {
			width = max(width, utf8.RuneCountInString(escape(f.path)))
		}
	}
	return width
}

// verifyHeader names the columns of a file's line.
func verifyHeader(names int) string {
	return fmt.Sprintf("      %-*s  %-6s %-6s %-6s %-11s %s", names, "", "out", "limit", "lse", "", "rules")
}

// line is a file's, whose name is cut to its column of so many runes.
func (r *fileReport) line(names int) string {
	name := escape(r.File)
	if r.err != nil {
		return fmt.Sprintf("FAIL  %s", oneLine(r.err))
	}
	mark := "ok  "
	if !r.OK {
		mark = "FAIL"
	}
	if runes := []rune(name); len(runes) > names {
		name = "…" + string(runes[len(runes)-names+1:])
	}
	out, limit, lse := fmt.Sprintf("%.1g", r.MaxAbsErr), fmt.Sprintf("%.1g", r.Limit), fmt.Sprintf("%.1g", r.LSEErr)
	if r.Rows > 0 && r.direct.outs == 0 {
		out, limit = "–", "–"
	}
	if r.Rows > 0 && r.direct.lses == 0 {
		lse = "–"
	}
	line := fmt.Sprintf("%s  %-*s  %-6s %-6s %-6s %-11s %s", mark, names, name, out, limit, lse, r.runs(), r.Rules)
	if !r.OK {
		line += "\n      " + r.fault()
	} else if rows := r.direct.rowWords(); rows != "" {
		line += "\n      " + rows + ", as in the direct softmax"
	}
	return line
}

func (r *fileReport) runs() string {
	if r.Runs > 1 {
		return fmt.Sprintf("1–%d splits", r.Runs)
	}
	return count(r.Splits, "split")
}

// fault says what is beyond its limit.
func (r *fileReport) fault() string {
	var faults []string
	if r.MaxAbsErr > r.Limit {
		faults = append(faults, fmt.Sprintf("out is %.2g from the direct softmax", r.MaxAbsErr))
	}
	if r.AnswerErr != nil && *r.AnswerErr > *r.AnswerLimit {
		faults = append(faults, fmt.Sprintf("out is %.2g from the file's own, want at most %.2g", *r.AnswerErr, *r.AnswerLimit))
	}
	if r.NonFinite > 0 {
		faults = append(faults, oneSided(r.NonFinite))
	}
	if n := r.AnswerNonFinite; n != nil && *n > 0 && !r.lossy {
		faults = append(faults, oneSided(*n)+", the file's own")
	}
	if len(faults) == 0 {
		faults = append(faults, fmt.Sprintf("lse is %.2g from the direct softmax", r.LSEErr))
		if r.AnswerLSEErr != nil {
			faults = append(faults, fmt.Sprintf("%.2g from the file's own", *r.AnswerLSEErr))
		}
	}
	return strings.Join(faults, "; ")
}
