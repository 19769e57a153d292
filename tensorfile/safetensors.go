package tensorfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxSafetensorsHeader is the reference implementation's limit in bytes.
const maxSafetensorsHeader = 100_000_000

const metadataKey = "__metadata__"

// entry is one tensor as the header describes it.
type entry struct {
	name       string
	dtype      DType
	shape      []int
	begin, end int // bytes in the data that follows the header
}

// ParseSafetensors reads a whole safetensors file. The tensors' Data lie in data.
//
// It is as strict as the reference implementation, and refuses besides what that lets pass: keys that
// come twice, fields that the format does not know, a null for metadata. Tensors must tile the data: no
// hole, no overlap, nothing after the last.
//
// Errors wrap ErrFormat, ErrDType, ErrShape or ErrTooLarge.
func ParseSafetensors(data []byte) (*File, error) {
	f, err := parseSafetensors(data)
	if err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	return f, nil
}

func parseSafetensors(data []byte) (*File, error) {
	header, body, err := cutHeader(data)
	if err != nil {
		return nil, err
	}
	entries, metadata, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	if err := checkTiling(entries, len(body)); err != nil {
		return nil, err
	}
	tensors := make([]Tensor, len(entries))
	for i, e := range entries {
		tensors[i] = Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: body[e.begin:e.end:e.end]}
	}
	return newFile(tensors, metadata), nil
}

// cutHeader parts the JSON from the tensors' bytes.
func cutHeader(data []byte) (header, body []byte, err error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("%d bytes, wanted 8 of header length: %w", len(data), ErrFormat)
	}
	n, rest := binary.LittleEndian.Uint64(data), data[8:]
	if n > maxSafetensorsHeader {
		return nil, nil, fmt.Errorf("header of %d bytes passes the limit of %d: %w", n, maxSafetensorsHeader, ErrTooLarge)
	}
	if n > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("header of %d bytes, but the file ends %d bytes into it: %w", n, len(rest), ErrFormat)
	}
	header, body = rest[:n], rest[n:]
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, fmt.Errorf("header does not begin with '{': %w", ErrFormat)
	}
	if !utf8.Valid(header) {
		return nil, nil, fmt.Errorf("header is not UTF-8: %w", ErrFormat)
	}
	return header, body, nil
}

// checkTiling sorts the entries by place and holds each against its shape and against its neighbours.
func checkTiling(entries []entry, size int) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	at := 0
	for _, e := range entries {
		if err := e.check(at, size); err != nil {
			return fmt.Errorf("tensor %s: %w", quote(e.name), err)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("%d bytes follow the last tensor, wanted none: %w", size-at, ErrFormat)
	}
	return nil
}

// check wants the entry to begin at the given byte of a body of so many.
func (e entry) check(at, size int) error {
	switch {
	case e.end < e.begin:
		return fmt.Errorf("data_offsets [%d, %d] end before they begin: %w", e.begin, e.end, ErrFormat)
	case e.end > size:
		return fmt.Errorf("data_offsets [%d, %d] in a file with %d bytes of data: %w", e.begin, e.end, size, ErrFormat)
	case e.begin < at:
		return fmt.Errorf("data_offsets [%d, %d] overlap the tensor that ends at %d: %w", e.begin, e.end, at, ErrFormat)
	case e.begin > at:
		return fmt.Errorf("data_offsets [%d, %d] leave a hole from %d: %w", e.begin, e.end, at, ErrFormat)
	}
	want, err := byteSize(e.shape, e.dtype.Size())
	if err != nil {
		return err
	}
	if e.end-e.begin != want {
		return fmt.Errorf("%v %v wants %d bytes, data_offsets [%d, %d] give %d: %w",
			e.dtype, e.shape, want, e.begin, e.end, e.end-e.begin, ErrShape)
	}
	return nil
}
