package tensorfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParseNPY reads a whole .npy file of format version 1, 2 or 3. The Tensor has no name.
//
// Its Data lies in data where that is little-endian and in C order already. Big-endian and Fortran-order
// arrays are put right in a copy. Bytes after the array are refused.
//
// Errors wrap ErrFormat, ErrDType (objects, which are pickles; structured, complex, date and string
// types; and void, as which ml_dtypes saves bfloat16), ErrShape or ErrTooLarge.
func ParseNPY(data []byte) (Tensor, error) {
	t, err := parseNPY(data)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensorfile: %w", err)
	}
	return t, nil
}

func parseNPY(data []byte) (Tensor, error) {
	h, err := parseNPYHeader(data)
	if err != nil {
		return Tensor{}, err
	}
	if h.isText() {
		return Tensor{}, fmt.Errorf("array of strings: %w", ErrDType)
	}
	body := data[h.dataAt:]
	if len(body) != h.dataSize {
		return Tensor{}, fmt.Errorf("%v %v wants %d bytes, the file has %d after its header: %w",
			h.dtype, h.shape, h.dataSize, len(body), ErrShape)
	}
	return h.tensor(body), nil
}

// tensor gives the array of exactly dataSize bytes its order of bytes and of elements.
func (h npyHeader) tensor(body []byte) Tensor {
	t := Tensor{DType: h.dtype, Shape: h.shape, Data: body[:len(body):len(body)]}
	if h.bigEndian && h.itemSize > 1 {
		t.Data = byteSwapped(t.Data, h.itemSize)
	}
	if h.fortran && len(h.shape) > 1 && len(body) > 0 {
		t.Data = rowMajor(t.Data, h.shape, h.itemSize)
	}
	return t
}

func byteSwapped(data []byte, itemSize int) []byte {
	out := slices.Clone(data)
	for item := range slices.Chunk(out, itemSize) {
		slices.Reverse(item)
	}
	return out
}

// rowMajor reorders a column-major array: it walks the elements in row-major order, with at standing
// at Σ index[d]·stride[d] in the column-major one.
func rowMajor(data []byte, shape []int, itemSize int) []byte {
	strides := make([]int, len(shape)) // bytes
	stride := itemSize
	for d, dim := range shape {
		strides[d] = stride
		stride *= dim
	}
	index := make([]int, len(shape))
	out := make([]byte, 0, len(data))
	at := 0
	for len(out) < len(data) {
		out = append(out, data[at:at+itemSize]...)
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			at += strides[d]
			if index[d] < shape[d] {
				break
			}
			at -= index[d] * strides[d]
			index[d] = 0
		}
	}
	return out
}

// text decodes the one string of an array of dtype 'U' or 'S', of exactly dataSize bytes.
func (h npyHeader) text(body []byte) (string, error) {
	s := string(body)
	if h.textKind == 'U' {
		var err error
		if s, err = h.fromUCS4(body); err != nil {
			return "", err
		}
	}
	s = strings.TrimRight(s, "\x00") // numpy's padding
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("string is not UTF-8: %w", ErrFormat)
	}
	return s, nil
}

func (h npyHeader) fromUCS4(body []byte) (string, error) {
	var order binary.ByteOrder = binary.LittleEndian
	if h.bigEndian {
		order = binary.BigEndian
	}
	var s strings.Builder
	for char := range slices.Chunk(body, 4) {
		c := order.Uint32(char)
		if !utf8.ValidRune(rune(c)) { // nor is what turns negative here
			return "", fmt.Errorf("string holds %#x, which is no Unicode character: %w", c, ErrFormat)
		}
		s.WriteRune(rune(c))
	}
	return s.String(), nil
}
