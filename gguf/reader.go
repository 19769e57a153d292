package gguf

import (
	"encoding/binary"
	"fmt"
)

// reader walks through a header. Every read says what it is for.
type reader struct {
	data []byte
	at   int
}

func (r *reader) left() int { return len(r.data) - r.at }

// take returns the next n bytes in place.
func (r *reader) take(what string, n int) ([]byte, error) {
	if n > r.left() {
		return nil, fmt.Errorf("%s takes %d bytes, but the file ends %d bytes on: %w", what, n, r.left(), ErrFormat)
	}
	r.at += n
	return r.data[r.at-n : r.at], nil
}

func (r *reader) uint32(what string) (uint32, error) {
	b, err := r.take(what, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *reader) uint64(what string) (uint64, error) {
	b, err := r.take(what, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads how many of something follow, after skip more bytes, each of at
// least that many bytes.
func (r *reader) count(what string, skip, least int) (int, error) {
	n, err := r.uint64("the number of " + what)
	if err != nil {
		return 0, err
	}
	if room := max(r.left()-skip, 0) / least; n > uint64(room) {
		return 0, fmt.Errorf("%d %s, but what is left of the file has room for at most %d: %w", n, what, room, ErrFormat)
	}
	return int(n), nil
}

// span returns the bytes of a string in place.
func (r *reader) span(what string, most int) ([]byte, error) {
	n, err := r.uint64("the length of " + what)
	if err != nil {
		return nil, err
	}
	if n > uint64(min(most, r.left())) {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d: %w", what, n, min(most, r.left()), ErrFormat)
	}
	return r.take(what, int(n))
}

func (r *reader) string(what string, most int) (string, error) {
	b, err := r.span(what, most)
	return string(b), err
}
