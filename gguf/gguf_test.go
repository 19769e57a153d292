package gguf

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flashdec/flashdec/tensorfile"
)

// TestDequantiseEqualsReference: every type against the reference implementation's numbers, bit for bit
// (testdata/make.py).
func TestDequantiseEqualsReference(t *testing.T) {
	f, err := Open("testdata/quantised.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := tensorfile.Open("testdata/quantised.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	known := 0
	for i := range types {
		if Type(i).known() {
			known++
		}
	}
	if len(f.Tensors) != known {
		t.Errorf("the file has %d tensors, want one of each of %d types", len(f.Tensors), known)
	}
	for _, x := range f.Tensors {
		expected, ok := want.Tensor(x.Name)
		if !ok || x.Type.String() != x.Name {
			t.Fatalf("tensor %s of %v is not among the expected", x.Name, x.Type)
		}
		rows, err := expected.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(x.Shape, expected.Shape) || x.Rows() != expected.Shape[0] || x.Columns() != expected.Shape[1] {
			t.Fatalf("%s: shape %v, want %v", x.Name, x.Shape, expected.Shape)
		}
		got := make([]float32, len(rows))
		for i := range x.Rows() {
			if err := x.Row(got[i*x.Columns():(i+1)*x.Columns()], i); err != nil {
				t.Fatal(err)
			}
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(rows[i]) {
				t.Fatalf("%s: element %d is %v, want %v", x.Name, i, got[i], rows[i])
			}
		}
	}
}

func TestMetadataOfEveryType(t *testing.T) {
	f, err := Open("testdata/quantised.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil { // metadata outlives the mapping
		t.Fatal(err)
	}
	want := map[string]any{
		"general.architecture": "test",
		"u8":                   uint8(200), "i8": int8(-100), "u16": uint16(60000), "i16": int16(-30000),
		"u32": uint32(4000000000), "i32": int32(-2000000000), "u64": uint64(1 << 63), "i64": int64(-1 << 62),
		"f32": float32(0.1), "f64": 0.1, "yes": true, "text": "ünï\x00cöde",
		"strings": []string{"a", "", "çé"}, "ints": []int32{1, -2, 3}, "floats": []float32{0.5, -1.5},
	}
	if diff := cmp.Diff(want, f.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestTensorsLieWhereTheFileSays(t *testing.T) {
	b := file(2, 0).tensor("b", F32, 0, 2, 3).tensor("a", Q8_0, 32, 64)
	data := b.body(32 + 68)
	data[len(data)-68+2] = 7 // the first code of a
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	a, ok := f.Tensor("a")
	if !ok || f.Tensors[0].Name != "a" || len(a.Data) != 68 || a.Data[2] != 7 || a.Rows() != 1 {
		t.Errorf("tensor a is %+v", a)
	}
	b2, _ := f.Tensor("b")
	if !cmp.Equal(b2.Shape, []int{3, 2}) || len(b2.Data) != 24 {
		t.Errorf("tensor b has shape %v and %d bytes, want [3 2] and 24", b2.Shape, len(b2.Data))
	}
	if _, ok := f.Tensor("c"); ok {
		t.Error("there is a tensor c")
	}
}

// TestRowsThatAreNot are errors.
func TestRowsThatAreNot(t *testing.T) {
	good := Tensor{Type: Q8_0, Shape: []int{1, 32}, Data: make([]byte, 34)}
	unknown, short := good, good
	unknown.Type, short.Data = 77, good.Data[:33]
	for name, err := range map[string]error{
		"row -1":       good.Row(make([]float32, 32), -1),
		"row 1":        good.Row(make([]float32, 32), 1),
		"little room":  good.Row(make([]float32, 31), 0),
		"little data":  short.Row(make([]float32, 32), 0),
		"unknown type": unknown.Row(make([]float32, 32), 0),
		"no tensor":    (Tensor{}).Row(nil, 0),
		"half a block": Q8_0.Dequantise(make([]float32, 16), make([]byte, 17)),
		"other data":   Q8_0.Dequantise(make([]float32, 32), make([]byte, 33)),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: error %v, want %v", name, err, ErrShape)
		}
	}
	if err := Type(77).Dequantise(nil, nil); !errors.Is(err, ErrType) {
		t.Errorf("an unknown type: error %v, want %v", err, ErrType)
	}
}

func TestHostileFilesAreErrors(t *testing.T) {
	const huge = 1 << 63
	pair := func(key string, t valueType) *builder { return file(0, 1).text(key).u32(uint32(t)) }
	cases := map[string]struct {
		data []byte
		kind error
		says string
	}{
		"empty":                  {nil, ErrFormat, "begin with"},
		"magic":                  {[]byte("GGML\x03\x00\x00\x00"), ErrFormat, "begin with"},
		"only the magic":         {[]byte(magic), ErrFormat, "version"},
		"version 1":              {*(&builder{'G', 'G', 'U', 'F'}).u32(1), ErrType, "version 1"},
		"version 0":              {*(&builder{'G', 'G', 'U', 'F'}).u32(0), ErrFormat, "version 0"},
		"big-endian":             {*(&builder{'G', 'G', 'U', 'F'}).u32(3 << 24), ErrType, "big-endian"},
		"count of tensors":       {*file(huge, 0), ErrFormat, "tensors"},
		"count of pairs":         {*file(0, huge), ErrFormat, "pairs"},
		"one tensor too many":    {file(2, 0).tensor("a", F32, 0, 1).body(4), ErrFormat, "room for at most 1"},
		"key length":             {*file(0, 1).u64(huge).u64(0, 0), ErrFormat, "key"},
		"string length":          {*pair("k", typeString).u64(huge), ErrFormat, "text"},
		"string length too far":  {*pair("k", typeString).u64(1), ErrFormat, "text"},
		"value type":             {*pair("k", 13).u32(0), ErrFormat, "value type 13"},
		"bool of 2":              {append(*pair("k", typeBool), 2), ErrFormat, "bool"},
		"array count":            {*pair("k", typeArray).u32(uint32(typeFloat64)).u64(1 << 61), ErrFormat, "elements"},
		"array of strings":       {*pair("k", typeArray).u32(uint32(typeString)).u64(2).text("a").u64(huge), ErrFormat, "element 1"},
		"array of arrays":        {*pair("k", typeArray).u32(uint32(typeArray)).u64(1), ErrType, "array"},
		"array's type":           {*pair("k", typeArray).u32(99).u64(1), ErrFormat, "value type 99"},
		"key twice":              {*file(0, 2).text("k").u32(uint32(typeUint32), 1).text("k").u32(uint32(typeUint32), 1), ErrFormat, "twice"},
		"no dimension":           {file(1, 0).tensor("a", F32, 0).body(64), ErrFormat, "0 dimensions"},
		"five dimensions":        {file(1, 0).tensor("a", F32, 0, 1, 1, 1, 1, 1).body(64), ErrFormat, "5 dimensions"},
		"dimension 0":            {file(1, 0).tensor("a", F32, 0, 4, 0).body(64), ErrFormat, "dimension 1 is 0"},
		"dimension of 2^63":      {file(1, 0).tensor("a", F32, 0, huge).body(64), ErrFormat, "dimension 0"},
		"product overflows":      {file(1, 0).tensor("a", F32, 0, 1<<32, 1<<32).body(64), ErrFormat, "passes"},
		"bytes overflow":         {file(1, 0).tensor("a", F32, 0, 1<<62).body(64), ErrFormat, "passes"},
		"part of a block":        {file(1, 0).tensor("a", Q4_0, 0, 33).body(64), ErrFormat, "multiple of 32"},
		"unknown type":           {file(1, 0).tensor("a", 77, 0, 1).body(64), ErrType, "Type(77)"},
		"type that is not read":  {file(1, 0).tensor("a", 10, 0, 256).body(84), ErrType, "Q2_K"},
		"offset of 2^63":         {file(1, 0).tensor("a", F32, huge, 1).body(64), ErrFormat, "offset"},
		"offset past the end":    {file(1, 0).tensor("a", F32, 96, 1).body(64), ErrFormat, "64 bytes of data"},
		"end past the end":       {file(1, 0).tensor("a", F32, 32, 9).body(64), ErrFormat, "64 bytes of data"},
		"offset off alignment":   {file(1, 0).tensor("a", F32, 4, 1).body(64), ErrFormat, "alignment"},
		"overlap":                {file(2, 0).tensor("a", F32, 0, 9).tensor("b", F32, 32, 1).body(96), ErrFormat, "overlaps"},
		"the same place":         {file(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 0, 8).body(64), ErrFormat, "overlaps"},
		"name twice":             {file(2, 0).tensor("a", F32, 0, 8).tensor("a", F32, 32, 8).body(64), ErrFormat, "twice"},
		"no data":                {*file(1, 0).tensor("a", F32, 0, 8), ErrFormat, "0 bytes of data"},
		"alignment 0":            {*pair(alignmentKey, typeUint32).u32(0), ErrFormat, alignmentKey},
		"alignment 3":            {*pair(alignmentKey, typeUint32).u32(3), ErrFormat, alignmentKey},
		"alignment of 2^31":      {*pair(alignmentKey, typeUint32).u32(1 << 31), ErrFormat, alignmentKey},
		"alignment as a string":  {*pair(alignmentKey, typeString).text("32"), ErrFormat, alignmentKey},
		"alignment as a float32": {*pair(alignmentKey, typeFloat32).u32(bitsOf(32)), ErrFormat, alignmentKey},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.data)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one that wraps %q and says %q", err, c.kind, c.says)
			}
		})
	}
}

// TestCutFilesAreErrors: no prefix of a good file is a file, but for one that loses nothing.
func TestCutFilesAreErrors(t *testing.T) {
	data, err := os.ReadFile("testdata/quantised.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, x := range f.Tensors {
		used += (len(x.Data) + defaultAlignment - 1) / defaultAlignment * defaultAlignment
	}
	for n := range len(data) - defaultAlignment {
		if _, err := Parse(data[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d of %d bytes (%d of tensors): error %v, want %v", n, len(data), used, err, ErrFormat)
		}
	}
}

func TestOpenNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want %v", err, os.ErrNotExist)
	}
}
