package tensorfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func encodeSafetensors(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	if err := checkWritable(tensors, metadata); err != nil {
		return err
	}
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(-cmp.Compare(a.DType.Size(), b.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
	}
	return nil
}

// encodeHeader is the header with its length before it, padded so that the data begins at a multiple of 8.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	type description struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	var b bytes.Buffer
	b.Write(make([]byte, 8)) // the length, when it is known
	separator := byte('{')
	field := func(key string, value any) {
		b.WriteByte(separator)
		separator = ','
		b.Write(mustJSON(key))
		b.WriteByte(':')
		b.Write(mustJSON(value))
	}
	if len(metadata) > 0 {
		field(metadataKey, metadata)
	}
	at := 0
	for _, t := range tensors {
		shape := append([]int{}, t.Shape...) // nil would be null
		field(t.Name, description{t.DType.String(), shape, [2]int{at, at + len(t.Data)}})
		at += len(t.Data)
	}
	if separator == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - 8
	if n > maxSafetensorsHeader {
		return nil, fmt.Errorf("header of %d bytes passes the limit of %d: %w", n, maxSafetensorsHeader, ErrTooLarge)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(n))
	return b.Bytes(), nil
}

// mustJSON encodes strings, numbers and maps of strings, which cannot fail. Map keys come out sorted.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("tensorfile: " + err.Error())
	}
	return b
}

// checkWritable holds what no format can say against the caller.
func checkWritable(tensors []Tensor, metadata map[string]string) error {
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return err
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %s comes twice: %w", quote(t.Name), ErrFormat)
		}
		seen[t.Name] = true
		if !utf8.ValidString(t.Name) || t.Name == metadataKey {
			return fmt.Errorf("tensor %s: not a name that a file can hold: %w", quote(t.Name), ErrFormat)
		}
	}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fmt.Errorf("metadata %s: key or value is not UTF-8: %w", quote(key), ErrFormat)
		}
	}
	return nil
}

// encodeNPZ leaves the entries' times empty: the same tensors give the same bytes.
func encodeNPZ(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	if err := checkWritable(tensors, metadata); err != nil {
		return err
	}
	archive := zip.NewWriter(w)
	written := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		written[t.Name] = t
		err := addEntry(archive, t.Name, func(w io.Writer) error { return encodeNPY(w, t) })
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		if t, ok := written[key]; ok {
			if text, ok := t.Text(); ok && text == value {
				continue
			}
			return fmt.Errorf("metadata %s: a tensor has that name and another value: %w", quote(key), ErrFormat)
		}
		err := addEntry(archive, key, func(w io.Writer) error { return encodeNPYText(w, value) })
		if err != nil {
			return fmt.Errorf("metadata %s: %w", quote(key), err)
		}
	}
	return archive.Close()
}

func addEntry(archive *zip.Writer, name string, encode func(io.Writer) error) error {
	entry := name + ".npy"
	if _, err := tensorOfEntry(entry); err != nil {
		return fmt.Errorf("entry %s %w", quote(entry), err)
	}
	w, err := archive.CreateHeader(&zip.FileHeader{Name: entry, Method: zip.Store})
	if err != nil {
		return err
	}
	return encode(w)
}

func encodeOnlyNPY(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	if len(tensors) != 1 || len(metadata) != 0 {
		return fmt.Errorf("an .npy holds one tensor and no metadata, got %d and %d: %w", len(tensors), len(metadata), ErrFormat)
	}
	if err := tensors[0].check(); err != nil {
		return err
	}
	return encodeNPY(w, tensors[0])
}

func encodeNPY(w io.Writer, t Tensor) error {
	code := dtypes[t.DType].npy
	if code == "" {
		return fmt.Errorf("numpy has no %v: %w", t.DType, ErrDType)
	}
	order := "<"
	if t.DType.Size() == 1 {
		order = "|"
	}
	if _, err := w.Write(encodeNPYHeader(order+code, t.Shape)); err != nil {
		return err
	}
	_, err := w.Write(t.Data)
	return err
}

// encodeNPYText writes a string of no dimension, in UCS-4 as numpy has them.
func encodeNPYText(w io.Writer, s string) error {
	if strings.HasSuffix(s, "\x00") {
		return fmt.Errorf("numpy drops the NUL that the string ends in: %w", ErrFormat)
	}
	var body []byte
	for _, c := range s {
		body = binary.LittleEndian.AppendUint32(body, uint32(c))
	}
	if len(body) == 0 {
		body = make([]byte, 4) // numpy's empty string is one NUL
	}
	descr := "<U" + strconv.Itoa(len(body)/4)
	if _, err := w.Write(encodeNPYHeader(descr, nil)); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// encodeNPYHeader pads with spaces and a newline, so that the array begins at a multiple of 64.
func encodeNPYHeader(descr string, shape []int) []byte {
	dims := make([]string, len(shape))
	for i, dim := range shape {
		dims[i] = strconv.Itoa(dim)
	}
	tuple := strings.Join(dims, ", ")
	if len(dims) == 1 {
		tuple += "," // without it, Python sees a number in parentheses
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const fixed = len(npyMagic) + 2 + 2 // magic, version, length
	n := (fixed+len(dict)+1+63)/64*64 - fixed
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(n)) // ≤ maxRank dimensions of 20 digits: it fits
	return append(b, fmt.Sprintf("%-*s\n", n-1, dict)...)
}
