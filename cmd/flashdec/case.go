package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/tensorfile"
)

// decodeCase is what a file asks for: one decode step's tensors and rules.
type decodeCase struct {
	path    string
	name    string   // from the metadata, or empty
	pieces  []string // [keys] text of each key's token, or nil
	shape   attn.Shape
	options attn.Options
	seqs    int
	queries int   // of each sequence
	keys    int   // slots of each sequence, of which lens are used
	lens    []int // [seqs]

	q    tensorfile.Tensor // [seqs, NumHeads, queries, KeyDim]
	k, v tensorfile.Tensor // [seqs, NumKVHeads, keys, dim] F32, F16 or BF16
	// packed is q [seqs, queries, NumHeads, KeyDim] where that is how the file has it; nil
	// elsewhere.
	packed []float32
	// rounded: some input was float64, and what is computed is its nearest float32.
	rounded bool

	out, lse *tensorfile.Tensor // [seqs, NumHeads, queries(, ValueDim)] what the file says is right, or nil
	file     *tensorfile.File
	// roundsWeights: what computes it rounds softmax weights to bfloat16.
	roundsWeights bool
	copied        bool // k and v are being, or have been, copied into a cache

	unreleased atomic.Int64 // bytes of k and v that were read since their memory was given back
}

// openCase reads a case. Its tensors lie in the mapped file where they can, so
// it must be closed last.
func openCase(ctx context.Context, path string) (*decodeCase, error) {
	if path == "" {
		return nil, errors.New("the path of the file is empty")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory, want a file; flashdec verify takes directories", path)
	}
	f, err := tensorfile.Index(path)
	if err != nil {
		return nil, err
	}
	c, err := newCase(ctx, path, f)
	if err != nil {
		_ = f.Close() // err is the failure to report
		return nil, err
	}
	return c, nil
}

func (c *decodeCase) close() error { return c.file.Close() }

// kvBytes is the size of the keys and values that the sequences really have, as
// they lie in the file.
func (c *decodeCase) kvBytes() int {
	return c.totalKeys() * c.shape.NumKVHeads * (c.rowsOf(c.k).size + c.rowsOf(c.v).size)
}

// totalKeys is how many keys all sequences have together.
func (c *decodeCase) totalKeys() int {
	keys := 0
	for _, n := range c.lens {
		keys += n
	}
	return keys
}

// title says in a few lines what the case is.
func (c *decodeCase) title() string {
	name := c.label()
	if text := c.file.Metadata["text"]; text != "" {
		name += "\n" + fold(printable(text), 0)
	}
	return name + "\n" + fold(c.describe(), 0)
}

// label is the case's name, or its file's.
func (c *decodeCase) label() string {
	if c.name != "" {
		return printable(c.name)
	}
	return filepath.Base(c.path)
}

// describe says how much of what the case has.
func (c *decodeCase) describe() string {
	dims := fmt.Sprintf("head dim %d", c.shape.KeyDim)
	if c.shape.KeyDim != c.shape.ValueDim {
		dims = fmt.Sprintf("key dim %d, value dim %d", c.shape.KeyDim, c.shape.ValueDim)
	}
	what := fmt.Sprintf("%s of %s, %s on %s, %s", count(c.seqs, "sequence"), c.lengths(),
		count(c.shape.NumHeads, "query head"), count(c.shape.NumKVHeads, "KV head"), dims)
	if c.queries != 1 {
		what += fmt.Sprintf(", %d new queries", c.queries)
	}
	return what
}

// lengths is "128 keys" or "7 to 128 keys".
func (c *decodeCase) lengths() string {
	if len(c.lens) == 0 {
		return "no keys"
	}
	low, high := slices.Min(c.lens), slices.Max(c.lens)
	if low == high {
		return count(high, "key")
	}
	return fmt.Sprintf("%d to %s", low, count(high, "key"))
}

// named names the case's file before an error, unless that does so itself: one of a file that was cut short.
func (c *decodeCase) named(err error) error {
	if errors.Is(err, filemap.ErrCut) {
		return err
	}
	return fmt.Errorf("%s: %w", c.path, err)
}

// newCase checks everything that a file says about a case: names, types and shapes
// first, so that nothing large is read from a file that is refused. After it,
// nothing about the case can fail.
func newCase(ctx context.Context, path string, f *tensorfile.File) (_ *decodeCase, err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	c := &decodeCase{path: path, file: f}
	r := caseReader{ctx, path, f, c}
	for _, step := range [...]func() error{
		r.checkKind, r.checkPlaces, r.readShape, r.checkMask, r.checkAnswer,
		r.readLens, r.readHeads, r.readRules, r.readMask, r.readQuery, r.readKeyValues, r.readAnswer, r.readText,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c, nil
}
