package tensorfile

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

const (
	npyMagic = "\x93NUMPY"
	// maxNPYHeader is numpy's own limit on a header that it does not trust, in bytes.
	maxNPYHeader = 10_000
	// npyFixed is the most bytes that stand before the header: magic, version, length.
	npyFixed = len(npyMagic) + 2 + 4
)

// npyHeader is what stands before an array.
type npyHeader struct {
	dtype     DType // of a number, and
	textKind  byte  // 'U' or 'S' of a string: one of the two is set
	bigEndian bool
	itemSize  int // bytes
	fortran   bool
	shape     []int

	dataAt   int // where the array begins
	dataSize int // bytes of the array
}

func (h npyHeader) isText() bool { return h.textKind != 0 }

// parseNPYHeader reads the beginning of an .npy, of which the array itself may be missing.
func parseNPYHeader(data []byte) (npyHeader, error) {
	dict, dataAt, err := cutNPYHeader(data)
	if err != nil {
		return npyHeader{}, err
	}
	h, err := parseNPYDict(dict)
	if err != nil {
		return npyHeader{}, fmt.Errorf("npy header: %w", err)
	}
	h.dataAt = dataAt
	if h.dataSize, err = byteSize(h.shape, h.itemSize); err != nil {
		return npyHeader{}, err
	}
	return h, nil
}

// cutNPYHeader finds the dictionary between the magic and the array.
func cutNPYHeader(data []byte) (dict string, dataAt int, err error) {
	if !hasPrefix(data, npyMagic) {
		return "", 0, fmt.Errorf("does not begin with %q: %w", npyMagic, ErrFormat)
	}
	rest := data[len(npyMagic):]
	if len(rest) < 2 {
		return "", 0, fmt.Errorf("npy ends before its version: %w", ErrFormat)
	}
	major, minor, rest := rest[0], rest[1], rest[2:]
	if major < 1 || major > 3 || minor != 0 {
		return "", 0, fmt.Errorf("npy version %d.%d, wanted 1.0, 2.0 or 3.0: %w", major, minor, ErrFormat)
	}
	lengthSize := 4
	if major == 1 {
		lengthSize = 2
	}
	if len(rest) < lengthSize {
		return "", 0, fmt.Errorf("npy ends before its header length: %w", ErrFormat)
	}
	var word [4]byte
	copy(word[:], rest[:lengthSize])
	n, rest := binary.LittleEndian.Uint32(word[:]), rest[lengthSize:]
	if n > maxNPYHeader {
		return "", 0, fmt.Errorf("npy header of %d bytes passes the limit of %d: %w", n, maxNPYHeader, ErrTooLarge)
	}
	if int(n) > len(rest) {
		return "", 0, fmt.Errorf("npy header of %d bytes, but the file ends %d bytes into it: %w", n, len(rest), ErrFormat)
	}
	return string(rest[:n]), len(data) - len(rest) + int(n), nil
}

// npyPrefix is how many bytes stand before an array of which some have been read: at most what a header
// within its limit takes, whatever they say.
func npyPrefix(some []byte) int {
	if len(some) < npyFixed {
		return npyFixed
	}
	length := some[npyFixed-4:]
	if some[len(npyMagic)] == 1 {
		return npyFixed - 2 + int(min(binary.LittleEndian.Uint16(length), maxNPYHeader))
	}
	return npyFixed + int(min(binary.LittleEndian.Uint32(length), maxNPYHeader))
}

// parseNPYDict reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, keys in any order.
func parseNPYDict(dict string) (npyHeader, error) {
	var h npyHeader
	s := literal{rest: dict}
	if err := s.want("{"); err != nil {
		return npyHeader{}, err
	}
	seen := map[string]bool{}
	for !s.accept("}") {
		key, err := s.str()
		if err != nil {
			return npyHeader{}, err
		}
		if seen[key] {
			return npyHeader{}, fmt.Errorf("key %s comes twice: %w", quote(key), ErrFormat)
		}
		seen[key] = true
		if err := s.want(":"); err != nil {
			return npyHeader{}, err
		}
		if err := h.field(key, &s); err != nil {
			return npyHeader{}, err
		}
		if !s.accept(",") {
			if err := s.want("}"); err != nil {
				return npyHeader{}, err
			}
			break
		}
	}
	if !s.atEnd() {
		return npyHeader{}, fmt.Errorf("goes on after its dictionary: %w", ErrFormat)
	}
	if len(seen) != 3 { // all known, none twice
		return npyHeader{}, fmt.Errorf("has %d of the keys descr, fortran_order, shape: %w", len(seen), ErrFormat)
	}
	return h, nil
}

func (h *npyHeader) field(key string, s *literal) (err error) {
	switch key {
	case "descr":
		if s.peek('[') || s.peek('(') {
			return fmt.Errorf("structured dtype: %w", ErrDType)
		}
		var descr string
		if descr, err = s.str(); err == nil {
			err = h.setDType(descr)
		}
	case "fortran_order":
		h.fortran, err = s.boolean()
	case "shape":
		h.shape, err = s.tuple()
	default:
		err = fmt.Errorf("unknown key %s: %w", quote(key), ErrFormat)
	}
	return err
}

// setDType reads a type string: byte order ('<', '>', or '|' for single bytes), kind, item size.
func (h *npyHeader) setDType(descr string) error {
	unsupported := fmt.Errorf("dtype %s: %w", quote(descr), ErrDType)
	if len(descr) < 2 {
		return unsupported
	}
	order, code := descr[0], descr[1:]
	switch kind := code[0]; kind {
	case 'O':
		return fmt.Errorf("dtype %s holds pickled objects, which can run code: %w", quote(descr), ErrDType)
	case 'U', 'S':
		n, err := strconv.ParseUint(code[1:], 10, 29) // · 4 fits an int32
		if err != nil {
			return unsupported
		}
		h.textKind, h.itemSize = kind, int(n)
		if kind == 'U' {
			h.itemSize *= 4 // UCS-4
		}
	default:
		d, ok := dtypeOfNPY(code)
		if !ok {
			return unsupported
		}
		h.dtype, h.itemSize = d, d.Size()
	}
	h.bigEndian = order == '>'
	singleBytes := h.textKind == 'S' || h.itemSize == 1
	if !strings.ContainsRune("<>|", rune(order)) || order == '|' && !singleBytes {
		return unsupported
	}
	return nil
}

// literal reads the few Python literals that an .npy header is made of.
type literal struct{ rest string }

func (s *literal) skipSpace() { s.rest = strings.TrimLeft(s.rest, " \t\r\n") }

func (s *literal) atEnd() bool {
	s.skipSpace()
	return s.rest == ""
}

func (s *literal) peek(c byte) bool {
	s.skipSpace()
	return s.rest != "" && s.rest[0] == c
}

func (s *literal) accept(token string) bool {
	s.skipSpace()
	rest, ok := strings.CutPrefix(s.rest, token)
	s.rest = rest
	return ok
}

func (s *literal) want(token string) error {
	if !s.accept(token) {
		return fmt.Errorf("wanted %s at %s: %w", token, quote(s.rest), ErrFormat)
	}
	return nil
}

// str reads a string in either quotes. Escapes, which no key and no type string needs, are refused.
func (s *literal) str() (string, error) {
	s.skipSpace()
	if s.rest == "" || s.rest[0] != '\'' && s.rest[0] != '"' {
		return "", fmt.Errorf("wanted a string at %s: %w", quote(s.rest), ErrFormat)
	}
	text, rest, ok := strings.Cut(s.rest[1:], s.rest[:1])
	if !ok || strings.ContainsAny(text, "\\\n") {
		return "", fmt.Errorf("wanted a plain string at %s: %w", quote(s.rest), ErrFormat)
	}
	s.rest = rest
	return text, nil
}

func (s *literal) boolean() (bool, error) {
	if s.accept("True") {
		return true, nil
	}
	if s.accept("False") {
		return false, nil
	}
	return false, fmt.Errorf("wanted True or False at %s: %w", quote(s.rest), ErrFormat)
}

// tuple reads (), (2,) or (2, 3) of whole numbers ≥ 0. (2) is a number in Python, and refused.
func (s *literal) tuple() ([]int, error) {
	if err := s.want("("); err != nil {
		return nil, err
	}
	out := []int{}
	for comma := true; !s.accept(")"); comma = s.accept(",") {
		s.skipSpace()
		end := strings.IndexAny(s.rest, ",) \t\r\n")
		if end < 0 || !comma {
			return nil, fmt.Errorf("wanted , or ) at %s: %w", quote(s.rest), ErrFormat)
		}
		n, err := parseCount(s.rest[:end], ErrShape)
		if err != nil {
			return nil, fmt.Errorf("dimension %w", err)
		}
		out, s.rest = append(out, n), s.rest[end:]
		if len(out) == 1 && !s.peek(',') {
			return nil, fmt.Errorf("wanted a tuple's comma at %s: %w", quote(s.rest), ErrFormat)
		}
	}
	return out, nil
}
