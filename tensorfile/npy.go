package tensorfile

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
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
func (h *npyHeader) tensor(body []byte) Tensor {
	t := Tensor{DType: h.dtype, Shape: h.shape, Data: body[:len(body):len(body)]}
	if !h.inPlace() {
		into := memoryRoom(len(body))
		_ = h.arrange(context.Background(), into, body) // memory takes all, and nobody can cancel
		t.Data = into.data
	}
	return t
}

// inPlace tells whether the elements lie as a Tensor has them: little-endian, in row-major order.
func (h *npyHeader) inPlace() bool {
	return h.dataSize == 0 || !(h.bigEndian && h.itemSize > 1) && !(h.fortran && len(h.shape) > 1)
}

// arrange writes the elements of the array little-endian and in row-major order.
func (h *npyHeader) arrange(ctx context.Context, w io.Writer, body []byte) error {
	const most = 64 << 10 // bytes written at a time
	out := bufio.NewWriterSize(w, min(len(body), most))
	item := make([]byte, h.itemSize)
	done := 0
	err := h.eachItem(func(at int) error {
		copy(item, body[at:])
		if h.bigEndian {
			slices.Reverse(item)
		}
		if done++; done%most == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := out.Write(item)
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// eachItem calls visit with the byte at which each element begins, in row-major order: at stands at
// Σ index[d]·stride[d].
func (h *npyHeader) eachItem(visit func(at int) error) error {
	strides, index := h.strides(), make([]int, len(h.shape))
	at := 0
	for range h.dataSize / h.itemSize {
		if err := visit(at); err != nil {
			return err
		}
		for d := len(h.shape) - 1; d >= 0; d-- {
			index[d]++
			at += strides[d]
			if index[d] < h.shape[d] {
				break
			}
			at -= index[d] * strides[d]
			index[d] = 0
		}
	}
	return nil
}

// strides is how many bytes neighbours lie apart, along each dimension of the array as it is stored.
func (h *npyHeader) strides() []int {
	strides := make([]int, len(h.shape))
	stride := h.itemSize
	for i := range h.shape {
		d := i // column-major: the first dimension runs fastest
		if !h.fortran {
			d = len(h.shape) - 1 - i
		}
		strides[d] = stride
		stride *= h.shape[d]
	}
	return strides
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
