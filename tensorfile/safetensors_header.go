package tensorfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// headerReader walks the header's JSON token by token. encoding/json's own decoding into structs would
// let a key that comes twice overwrite the first, match keys in any case, and build whatever nesting
// the file asks for; this refuses the first token that the format does not want.
type headerReader struct{ dec *json.Decoder }

// parseHeader reads {"__metadata__": {string: string}, name: {"dtype", "shape", "data_offsets"}, …}.
func parseHeader(header []byte) ([]entry, map[string]string, error) {
	r := headerReader{json.NewDecoder(bytes.NewReader(header))}
	r.dec.UseNumber()

	var entries []entry
	metadata := map[string]string{}
	err := r.object("header", func(key string) error {
		if key == metadataKey {
			return r.metadata(metadata)
		}
		e, err := r.entry(key)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(key), err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := r.dec.Token(); err != io.EOF { // white space, which pads, is not a token
		return nil, nil, fmt.Errorf("header goes on after its object: %w", ErrFormat)
	}
	return entries, metadata, nil
}

func (r headerReader) metadata(into map[string]string) error {
	return r.object("metadata", func(key string) error {
		value, err := r.string("metadata " + quote(key))
		into[key] = value
		return err
	})
}

func (r headerReader) entry(name string) (entry, error) {
	e := entry{name: name}
	fields := 0
	err := r.object("description", func(key string) (err error) {
		fields++
		switch key {
		case "dtype":
			e.dtype, err = r.dtype()
		case "shape":
			e.shape, err = r.shape()
		case "data_offsets":
			e.begin, e.end, err = r.offsets()
		default:
			err = fmt.Errorf("unknown field %s: %w", quote(key), ErrFormat)
		}
		return err
	})
	if err != nil {
		return entry{}, err
	}
	if fields != 3 { // all known, none twice
		return entry{}, fmt.Errorf("has %d of the fields dtype, shape, data_offsets: %w", fields, ErrFormat)
	}
	return e, nil
}

func (r headerReader) dtype() (DType, error) {
	name, err := r.string("dtype")
	if err != nil {
		return 0, err
	}
	d, ok := dtypeNamed(name)
	if !ok {
		return 0, fmt.Errorf("dtype %s: %w", quote(name), ErrDType)
	}
	return d, nil
}

func (r headerReader) shape() ([]int, error) {
	return r.counts("shape", maxRank, ErrShape)
}

func (r headerReader) offsets() (begin, end int, err error) {
	pair, err := r.counts("data_offsets", 2, ErrFormat)
	if err != nil {
		return 0, 0, err
	}
	if len(pair) != 2 {
		return 0, 0, fmt.Errorf("data_offsets has %d numbers, wanted 2: %w", len(pair), ErrFormat)
	}
	return pair[0], pair[1], nil
}

// object calls field for each key of an object, with the reader standing at the key's value.
func (r headerReader) object(what string, field func(key string) error) error {
	if err := r.delim(what, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.dec.More() {
		key, err := r.string(what)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%s: key %s comes twice: %w", what, quote(key), ErrFormat)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	return r.delim(what, '}')
}

// counts reads an array of at most so many whole numbers ≥ 0. What is no such number is a sentinel.
func (r headerReader) counts(what string, most int, sentinel error) ([]int, error) {
	if err := r.delim(what, '['); err != nil {
		return nil, err
	}
	out := []int{}
	for r.dec.More() {
		if len(out) == most {
			return nil, fmt.Errorf("%s has more than %d numbers: %w", what, most, sentinel)
		}
		token, err := r.token(what)
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s: wanted a number, got %s: %w", what, describe(token), sentinel)
		}
		n, err := parseCount(number.String(), sentinel)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		out = append(out, n)
	}
	return out, r.delim(what, ']')
}

func (r headerReader) string(what string) (string, error) {
	token, err := r.token(what)
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s: wanted a string, got %s: %w", what, describe(token), ErrFormat)
	}
	return s, nil
}

func (r headerReader) delim(what string, want json.Delim) error {
	token, err := r.token(what)
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%s: wanted %q, got %s: %w", what, want.String(), describe(token), ErrFormat)
	}
	return nil
}

func (r headerReader) token(what string) (json.Token, error) {
	token, err := r.dec.Token()
	if err == io.EOF {
		return nil, fmt.Errorf("%s: header ends early: %w", what, ErrFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, err, ErrFormat)
	}
	return token, nil
}

// describe shows a token in an error.
func describe(token json.Token) string {
	switch token := token.(type) {
	case nil:
		return "null"
	case string:
		return "the string " + quote(token)
	case json.Number:
		return "the number " + quote(token.String())
	default:
		return fmt.Sprintf("%v", token)
	}
}
