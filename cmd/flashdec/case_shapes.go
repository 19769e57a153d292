package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/tensorfile"
)

// caseReader fills a case from a file, a group of tensors at a time. Steps that
// check look at types and shapes alone; those that read load what they need.
type caseReader struct {
	ctx  context.Context
	path string
	file *tensorfile.File
	c    *decodeCase
}

func (r *caseReader) bad(tensor, format string, args ...any) error {
	return fmt.Errorf("%s: tensor %s: "+format, append([]any{r.path, tensor}, args...)...)
}

// floats are the types that inputs and answers may have.
var floats = []tensorfile.DType{tensorfile.F64, tensorfile.F32, tensorfile.F16, tensorfile.BF16}

// integers are the types that lengths may have.
var integers = []tensorfile.DType{
	tensorfile.I64, tensorfile.I32, tensorfile.I16, tensorfile.I8,
	tensorfile.U64, tensorfile.U32, tensorfile.U16, tensorfile.U8,
}

// optional finds a tensor of one of some types.
func (r *caseReader) optional(name string, types []tensorfile.DType) (t tensorfile.Tensor, found bool, err error) {
	t, found = r.file.Tensor(name)
	if found && !slices.Contains(types, t.DType) {
		return t, true, r.bad(name, "is %v, want one of %v", t.DType, types)
	}
	return t, found, nil
}

// load reads a tensor that has passed its checks.
func (r *caseReader) load(name string) (tensorfile.Tensor, error) { return r.file.Load(r.ctx, name) }

// required finds an input of four dimensions.
func (r *caseReader) required(name, dims string) (tensorfile.Tensor, error) {
	t, found, err := r.optional(name, floats)
	if err != nil {
		return t, err
	}
	if unread := unknownTensors(r.file); !found && len(unread) > 0 {
		return t, r.bad(name, "is missing, want %s; nobody reads the file's %s", dims, fewNames(unread))
	}
	if !found {
		return t, r.bad(name, "is missing, want %s", dims)
	}
	if len(t.Shape) != 4 {
		return t, r.bad(name, "has shape %v, want %s", t.Shape, dims)
	}
	return t, nil
}

// errNoCase is of a file that has nothing of a case, such as a model's weights.
var errNoCase = errors.New("no attention case: none of its tensors is q, k or v")

func (r *caseReader) checkKind() error {
	for _, name := range [...]string{"q", "k", "v"} {
		if _, found := r.file.Tensor(name); found {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", r.path, errNoCase)
}

// maxRows bounds sequences × query heads: a file without elements can claim any
// number of them, and each costs memory and time here.
const maxRows = 1 << 21

func (r *caseReader) readShape() error {
	q, err := r.required("q", "[sequences, query heads, queries, key dim]")
	if err != nil {
		return err
	}
	k, err := r.required("k", "[sequences, KV heads, keys, key dim]")
	if err != nil {
		return err
	}
	v, err := r.required("v", "[sequences, KV heads, keys, value dim]")
	if err != nil {
		return err
	}
	if want := []int{q.Shape[0], k.Shape[1], k.Shape[2], q.Shape[3]}; !slices.Equal(k.Shape, want) {
		return r.bad("k", "has shape %v, want %v: the sequences and the key dim of q %v", k.Shape, want, q.Shape)
	}
	if want := []int{k.Shape[0], k.Shape[1], k.Shape[2], v.Shape[3]}; !slices.Equal(v.Shape, want) {
		return r.bad("v", "has shape %v, want %v: the sequences, KV heads and keys of k", v.Shape, want)
	}
	c := r.c
	c.seqs, c.queries, c.keys = q.Shape[0], q.Shape[2], k.Shape[2]
	c.shape = attn.Shape{NumHeads: q.Shape[1], NumKVHeads: k.Shape[1], KeyDim: q.Shape[3], ValueDim: v.Shape[3]}
	if c.seqs > maxSequences {
		return r.bad("q", "has %d sequences, want at most %d", c.seqs, maxSequences)
	}
	if c.seqs*c.shape.NumHeads > maxRows {
		return r.bad("q", "has %d sequences of %d query heads, want at most %d of both", c.seqs, c.shape.NumHeads, maxRows)
	}
	if err := c.shape.Validate(); err != nil {
		return fmt.Errorf("%s: tensors q %v, k %v, v %v: %w", r.path, q.Shape, k.Shape, v.Shape, err)
	}
	return nil
}

func (r *caseReader) readLens() error {
	c := r.c
	c.lens = make([]int, c.seqs)
	t, found, err := r.optional("lens", integers)
	if err != nil {
		return err
	}
	if !found {
		for i := range c.lens {
			c.lens[i] = c.keys
		}
		return nil
	}
	if !slices.Equal(t.Shape, []int{c.seqs}) {
		return r.bad("lens", "has shape %v, want [%d], one length a sequence", t.Shape, c.seqs)
	}
	if t, err = r.load("lens"); err != nil {
		return err
	}
	lens, err := t.Ints()
	if err != nil { // its own words name the tensor, and not the file
		return r.bad("lens", "has a length that no int holds, want 0 to %d, the keys of k", c.keys)
	}
	for i, n := range lens {
		if n < 0 || n > c.keys {
			return r.bad("lens", "sequence %d has %d keys, want 0 to %d, the keys of k", i, n, c.keys)
		}
	}
	c.lens = lens
	return nil
}

// readHeads reads what there is one of a query head.
func (r *caseReader) readHeads() (err error) {
	if r.c.options.Sinks, err = r.perHead("sinks"); err != nil {
		return err
	}
	r.c.options.Slopes, err = r.perHead("alibi_slopes")
	return err
}

func (r *caseReader) perHead(name string) ([]float32, error) {
	t, found, err := r.optional(name, floats)
	if err != nil || !found {
		return nil, err
	}
	if heads := r.c.shape.NumHeads; !slices.Equal(t.Shape, []int{heads}) {
		return nil, r.bad(name, "has shape %v, want [%d], one a query head", t.Shape, heads)
	}
	r.c.rounded = r.c.rounded || t.DType == tensorfile.F64
	if t, err = r.load(name); err != nil {
		return nil, err
	}
	return t.Float32s()
}

func (r *caseReader) checkMask() error {
	c := r.c
	t, found, err := r.optional("mask", []tensorfile.DType{tensorfile.U8, tensorfile.Bool})
	if err != nil || !found {
		return err
	}
	seqs := 1
	if len(t.Shape) == 4 && t.Shape[0] == c.seqs {
		seqs = c.seqs
	}
	if want := []int{seqs, 1, c.queries, c.keys}; !slices.Equal(t.Shape, want) {
		return r.bad("mask", "has shape %v, want [1 or %d, 1, %d, %d]: 1 or all sequences, 1 head, the queries of q, the keys of k",
			t.Shape, c.seqs, c.queries, c.keys)
	}
	return nil
}

func (r *caseReader) readMask() error {
	c := r.c
	t, found := r.file.Tensor("mask")
	if !found || t.Shape[0] == 0 { // a mask for no sequences hides nothing
		return nil
	}
	t, err := r.load("mask")
	c.options.Mask = &attn.Mask{Seqs: t.Shape[0], Queries: c.queries, Keys: c.keys, Visible: t.Data}
	return err
}

// checkAnswer finds what the file says is right.
func (r *caseReader) checkAnswer() (err error) {
	c := r.c
	if c.out, err = r.answer("out", []int{c.seqs, c.shape.NumHeads, c.queries, c.shape.ValueDim}); err != nil {
		return err
	}
	c.lse, err = r.answer("lse", []int{c.seqs, c.shape.NumHeads, c.queries})
	return err
}

func (r *caseReader) answer(name string, want []int) (*tensorfile.Tensor, error) {
	t, found, err := r.optional(name, floats)
	if err != nil || !found {
		return nil, err
	}
	if !slices.Equal(t.Shape, want) {
		return nil, r.bad(name, "has shape %v, want %v, from q and v", t.Shape, want)
	}
	return &t, nil
}

func (r *caseReader) readAnswer() error {
	for _, t := range []*tensorfile.Tensor{r.c.out, r.c.lse} {
		if t == nil {
			continue
		}
		var err error
		if *t, err = r.load(t.Name); err != nil {
			return err
		}
	}
	return nil
}
