package tensorfile

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSafetensorsWritesAligned(t *testing.T) {
	var b bytes.Buffer
	want := []Tensor{vector(U8, []byte{1}), vector(F64, make([]byte, 8)), vector(F16, []byte{1, 2})}
	for i, name := range []string{"a", "z", "m"} {
		want[i].Name = name
	}
	if err := encodeSafetensors(&b, slices.Clone(want), nil); err != nil {
		t.Fatal(err)
	}
	header, _, err := cutHeader(b.Bytes())
	if err != nil || len(header)%8 != 0 {
		t.Fatalf("header of %d bytes, %v", len(header), err)
	}
	entries, _, err := parseHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.begin%e.dtype.Size() != 0 {
			t.Errorf("%v begins at %d", e.dtype, e.begin)
		}
	}
}

// TestEncodeNPYIsNumpys pins the bytes that numpy 2.4 writes for np.save(np.array([[1], [-2]], '<i2')).
func TestEncodeNPYIsNumpys(t *testing.T) {
	want := "\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }" +
		strings.Repeat(" ", 58) + "\n\x01\x00\xfe\xff"
	var b bytes.Buffer
	if err := encodeNPY(&b, Tensor{"", I16, []int{2, 1}, bytesOf([]int16{1, -2})}); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got\n%q, want\n%q", b.String(), want)
	}
}
