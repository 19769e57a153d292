package gguf

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 20 // far above any page that a file is aligned to
	maxDims          = 4       // of ggml's tensors
	maxName          = 1<<16 - 1
	alignmentKey     = "general.alignment"

	// The fewest bytes that an entry can take bound how many a file can claim.
	leastPair   = 8 + 4 + 1      // an empty key, a type, a byte
	leastTensor = 8 + 4 + 8 + 12 // an empty name, one dimension, type and offset
)

// entry is one tensor as the header describes it.
type entry struct {
	Tensor
	offset, size int // bytes, from the beginning of the data
}

func parse(data []byte) (*File, error) {
	r := &reader{data: data}
	version, tensors, pairs, err := r.preamble()
	if err != nil {
		return nil, err
	}
	f := &File{Version: version}
	if f.Metadata, err = r.metadata(pairs); err != nil {
		return nil, err
	}
	entries, err := r.entries(tensors)
	if err != nil {
		return nil, err
	}
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	body := data[min(len(data), alignUp(r.at, alignment)):]
	if err := place(entries, body, alignment); err != nil {
		return nil, err
	}
	f.Tensors = make([]Tensor, len(entries))
	for i, e := range entries {
		f.Tensors[i] = e.Tensor
	}
	return f, nil
}

// preamble reads what stands before the metadata.
func (r *reader) preamble() (version, tensors, pairs int, err error) {
	head, err := r.take("the magic", len(magic))
	if err != nil || string(head) != magic {
		return 0, 0, 0, fmt.Errorf("the file does not begin with %q: %w", magic, ErrFormat)
	}
	v, err := r.uint32("the version")
	if err != nil {
		return 0, 0, 0, err
	}
	if v == 1 || v > 3 {
		what := ""
		if v&0xffff == 0 && v != 0 {
			what = " (a big-endian file)"
		}
		return 0, 0, 0, fmt.Errorf("version %d%s: %w, want 2 or 3", v, what, ErrType)
	}
	if v == 0 {
		return 0, 0, 0, fmt.Errorf("version 0: %w", ErrFormat)
	}
	if tensors, err = r.count("tensors", 8, leastTensor); err != nil {
		return 0, 0, 0, err
	}
	// The pairs come first, but no count of them can leave the tensors without room.
	pairs, err = r.count("metadata pairs", 0, leastPair)
	return int(v), tensors, pairs, err
}

// entries reads the descriptions of the tensors.
func (r *reader) entries(n int) ([]entry, error) {
	if n > r.left()/leastTensor {
		return nil, fmt.Errorf("%d tensors, but %d bytes are left: %w", n, r.left(), ErrFormat)
	}
	var entries []entry // grows with what is read, not with what is claimed
	for i := range n {
		e, err := r.entry()
		if err != nil {
			return nil, fmt.Errorf("tensor %d of %d: %w", i, n, err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < n; i++ {
		if entries[i].Name == entries[i-1].Name {
			return nil, fmt.Errorf("tensor %s comes twice: %w", quote(entries[i].Name), ErrFormat)
		}
	}
	return entries, nil
}

func (r *reader) entry() (e entry, err error) {
	if e.Name, err = r.string("its name", maxName); err != nil {
		return e, err
	}
	if err := r.description(&e); err != nil {
		return e, fmt.Errorf("%s: %w", quote(e.Name), err)
	}
	return e, nil
}

// description reads what follows a tensor's name.
func (r *reader) description(e *entry) error {
	dims, err := r.uint32("its number of dimensions")
	if err != nil {
		return err
	}
	if dims < 1 || dims > maxDims {
		return fmt.Errorf("%d dimensions, want 1 to %d: %w", dims, maxDims, ErrFormat)
	}
	e.Shape = make([]int, dims)
	for i := range e.Shape {
		n, err := r.uint64("a dimension")
		if err != nil {
			return err
		}
		if n < 1 || n > math.MaxInt {
			return fmt.Errorf("dimension %d is %d, want 1 to %d: %w", i, n, math.MaxInt, ErrFormat)
		}
		e.Shape[int(dims)-1-i] = int(n) // the file has the adjacent elements' first
	}
	t, err := r.uint32("its type")
	if err != nil {
		return err
	}
	if e.Type = Type(t); !e.Type.known() {
		return fmt.Errorf("type %v: %w", e.Type, ErrType)
	}
	if e.size, err = byteSize(e.Type, e.Shape); err != nil {
		return err
	}
	offset, err := r.uint64("its offset")
	if err != nil {
		return err
	}
	if offset > math.MaxInt {
		return fmt.Errorf("offset %d: %w", offset, ErrFormat)
	}
	e.offset = int(offset)
	return nil
}

// byteSize is what a tensor takes. Its rows are whole blocks.
func byteSize(t Type, shape []int) (int, error) {
	columns := shape[len(shape)-1]
	if block := types[t].elements; columns%block != 0 {
		return 0, fmt.Errorf("rows of %d elements, want a multiple of %d, the block of %v: %w", columns, block, t, ErrFormat)
	}
	size := uint64(columns / types[t].elements)
	for _, n := range append([]int{types[t].bytes}, shape[:len(shape)-1]...) {
		over, product := bits.Mul64(size, uint64(n))
		if over != 0 || product > math.MaxInt {
			return 0, fmt.Errorf("shape %v of %v passes %d bytes: %w", shape, t, math.MaxInt, ErrFormat)
		}
		size = product
	}
	return int(size), nil
}

// alignment is what the data, and every tensor in it, is aligned to.
func (f *File) alignment() (int, error) {
	v, given := f.Metadata[alignmentKey]
	if !given {
		return defaultAlignment, nil
	}
	n, ok := v.(uint32)
	if !ok || n < 1 || n > maxAlignment || n&(n-1) != 0 {
		return 0, fmt.Errorf("%s is %v (%T), want a power of two as a uint32, at most %d: %w", alignmentKey, v, v, maxAlignment, ErrFormat)
	}
	return int(n), nil
}

func alignUp(n, alignment int) int { return (n + alignment - 1) &^ (alignment - 1) }

// place gives the entries, which come back in name order, their data, and refuses those that
// lie outside, off the alignment, or over one another.
func place(entries []entry, body []byte, alignment int) error {
	order := make([]*entry, len(entries))
	for i := range entries {
		order[i] = &entries[i]
	}
	slices.SortFunc(order, func(a, b *entry) int { return cmp.Compare(a.offset, b.offset) })
	end := 0
	for _, e := range order {
		switch {
		case e.offset%alignment != 0:
			return fmt.Errorf("tensor %s: offset %d is not a multiple of the alignment, %d: %w", quote(e.Name), e.offset, alignment, ErrFormat)
		case e.offset < end:
			return fmt.Errorf("tensor %s: offset %d overlaps the tensor that ends at %d: %w", quote(e.Name), e.offset, end, ErrFormat)
		case e.offset > len(body) || e.size > len(body)-e.offset:
			return fmt.Errorf("tensor %s: %d bytes from offset %d on, in a file with %d bytes of data: %w",
				quote(e.Name), e.size, e.offset, len(body), ErrFormat)
		}
		end = e.offset + e.size
		e.Data = body[e.offset:end:end]
	}
	return nil
}
