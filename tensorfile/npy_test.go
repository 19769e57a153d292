package tensorfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// npy writes a version 1 file with numpy's own layout of the dictionary.
func npy(descr, fortran, shape string, body []byte) []byte {
	return npyOf(1, fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }", descr, fortran, shape), body)
}

func npyOf(major byte, dict string, body []byte) []byte {
	dict += strings.Repeat(" ", 7) + "\n"
	b := append([]byte("\x93NUMPY"), major, 0)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	}
	return append(append(b, dict...), body...)
}

func TestParseNPY(t *testing.T) {
	six := []byte{1, 2, 3, 4, 5, 6}
	twelve := []byte{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}
	for _, c := range []struct {
		name string
		data []byte
		want Tensor
	}{
		{"C order", npy("'<i2'", "False", "(2, 3)", twelve), Tensor{"", I16, []int{2, 3}, twelve}},
		{"version 2", npyOf(2, "{'descr':'|u1','fortran_order':False,'shape':(6,)}", six), Tensor{"", U8, []int{6}, six}},
		{"version 3", npyOf(3, `{"shape": (6,), "fortran_order": False, "descr": "|i1"}`, six), Tensor{"", I8, []int{6}, six}},
		{"scalar", npy("'|b1'", "False", "()", six[:1]), Tensor{"", Bool, nil, six[:1]}},
		{"empty", npy("'<f8'", "False", "(3, 0)", nil), Tensor{"", F64, []int{3, 0}, nil}},
		{"empty Fortran", npy("'<f8'", "True", "(0, 3)", nil), Tensor{"", F64, []int{0, 3}, nil}},
		{"half", npy("'<f2'", "False", "(1,)", []byte{1, 0x7c}), Tensor{"", F16, []int{1}, []byte{1, 0x7c}}},
		{
			// Column-major: the first index runs fastest.
			"Fortran", npy("'|u1'", "True", "(2, 3)", []byte{1, 4, 2, 5, 3, 6}),
			Tensor{"", U8, []int{2, 3}, six},
		},
		{"big-endian", npy("'>u4'", "False", "(1,)", []byte{1, 2, 3, 4}), Tensor{"", U32, []int{1}, []byte{4, 3, 2, 1}}},
		{
			"big-endian Fortran", npy("'>u2'", "True", "(2, 3)", []byte{0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6}),
			Tensor{"", U16, []int{2, 3}, twelve},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.data)
			got, err := ParseNPY(c.data)
			if err != nil {
				t.Fatal(err)
			}
			requireSame(t, []Tensor{got}, []Tensor{c.want})
			if !bytes.Equal(before, c.data) {
				t.Error("the parser wrote to its input")
			}
		})
	}
}

func TestParseNPYRefuses(t *testing.T) {
	const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
	eight := make([]byte, 8)
	with := func(old, new string) []byte { return npyOf(1, strings.Replace(good, old, new, 1), eight) }
	for _, c := range []struct {
		name     string
		data     []byte
		sentinel error
		words    string
	}{
		{"nothing", nil, ErrFormat, "begin"},
		{"magic only", []byte("\x93NUMPY"), ErrFormat, "version"},
		{"version 0", npyOf(0, good, eight), ErrFormat, "version 0.0"},
		{"version 4", npyOf(4, good, eight), ErrFormat, "version 4.0"},
		{"version 1.1", append([]byte("\x93NUMPY\x01\x01"), npyOf(1, good, eight)[8:]...), ErrFormat, "version 1.1"},
		{"no length", []byte("\x93NUMPY\x02\x00\x01\x00\x00"), ErrFormat, "header length"},
		{"header past the file", []byte("\x93NUMPY\x01\x00\xff\x00{}"), ErrFormat, "255 bytes"},
		{"absurd header", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"), ErrTooLarge, "4294967295"},
		{"data missing", npyOf(1, good, eight[:7]), ErrShape, "wants 8 bytes, the file has 7"},
		{"data left", npyOf(1, good, make([]byte, 9)), ErrShape, "wants 8 bytes, the file has 9"},
		{"no dictionary", npyOf(1, "[]", eight), ErrFormat, "wanted {"},
		{"empty dictionary", npyOf(1, "{}", eight), ErrFormat, "0 of the keys"},
		{"open dictionary", with(", }", ""), ErrFormat, "wanted }"},
		{"two dictionaries", with(", }", "}{}"), ErrFormat, "goes on"},
		{"key twice", with(", }", ", 'descr': '<f4'}"), ErrFormat, `"descr" comes twice`},
		{"unknown key", with("descr", "dtype"), ErrFormat, `"dtype"`},
		{"missing key", with("'fortran_order': False,", ""), ErrFormat, "2 of the keys"},
		{"escape", with("descr", `d\x65scr`), ErrFormat, "plain string"},
		{"code", with("False", "__import__('os')"), ErrFormat, "True or False"},
		{"lower-case bool", with("False", "false"), ErrFormat, "True or False"},
		{"shape is a number", with("(2,)", "2"), ErrFormat, "wanted ("},
		{"shape in parentheses", with("(2,)", "(2)"), ErrFormat, "comma"},
		{"shape without comma", with("(2,)", "(2, 1 1)"), ErrFormat, "wanted , or )"},
		{"shape open", with("(2,), }", "(2,"), ErrFormat, "wanted , or )"},
		{"negative", with("(2,)", "(-2,)"), ErrShape, `"-2"`},
		{"float", with("(2,)", "(2.0,)"), ErrShape, `"2.0"`},
		{"long", with("(2,)", "(2L,)"), ErrShape, `"2L"`},
		{"huge", with("(2,)", "(99999999999999999999,)"), ErrTooLarge, "99999999999999999999"},
		{"comma only", with("(2,)", "(,)"), ErrShape, `""`},
		{"overflow", with("(2,)", "(1152921504606846976, 1152921504606846976)"), ErrTooLarge, "1152921504606846976"},
		{"wraps to 8", with("(2,)", "(2147483648, 2147483650)"), ErrTooLarge, ""},
		{"65 dimensions", with("(2,)", "("+strings.Repeat("1,", 65)+")"), ErrShape, "64"},
		{"objects", with("<f4", "|O"), ErrDType, "pickle"},
		{"structured", with("'<f4'", "[('a', '<f4')]"), ErrDType, "structured"},
		{"subarray", with("'<f4'", "('<f4', (2,))"), ErrDType, "structured"},
		{"complex", with("<f4", "<c8"), ErrDType, `"<c8"`},
		{"date", with("<f4", "<M8[ns]"), ErrDType, `"<M8[ns]"`},
		{"bfloat16 as void", with("<f4", "|V2"), ErrDType, `"|V2"`},
		{"long double", with("<f4", "<f16"), ErrDType, `"<f16"`},
		{"no order", with("<f4", "f4"), ErrDType, `"f4"`},
		{"native order", with("<f4", "=f4"), ErrDType, `"=f4"`},
		{"order missing where it matters", with("<f4", "|f4"), ErrDType, `"|f4"`},
		{"order only", with("<f4", "<"), ErrDType, `"<"`},
		{"no dtype", with("<f4", ""), ErrDType, `""`},
		{"string", npy("'<U2'", "False", "()", eight), ErrDType, "strings"},
		{"string of no length", with("<f4", "<U"), ErrDType, `"<U"`},
		{"string of absurd length", with("<f4", "<U99999999999"), ErrDType, "99999999999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseNPY(c.data)
			wantError(t, err, c.sentinel, c.words)
		})
	}
	whole := npyOf(1, good, eight)
	for n := range whole {
		if _, err := ParseNPY(whole[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, len(whole))
		}
	}
}

func TestNPYMemoryFollowsTheFile(t *testing.T) {
	for _, data := range [][]byte{
		npy("'<f4'", "False", "(1099511627776,)", make([]byte, 8)),
		npy("'>f4'", "True", "(1048576, 1048576)", make([]byte, 8)),
		[]byte("\x93NUMPY\x02\x00\x10\x27\x00\x00{"), // a header of exactly the limit
	} {
		if got := allocated(func() { _, _ = ParseNPY(data) }); got > 16<<10 {
			t.Errorf("%d bytes made the parser allocate %d", len(data), got)
		}
	}
}

// TestArrangeIsTransposition reorders by index arithmetic and compares: element (i0, i1, …) stands at
// Σ i_d · product(shape before d) in column-major order.
func TestArrangeIsTransposition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 4).Draw(t, "shape")
		itemSize := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "itemSize")
		size := must(byteSize(shape, itemSize))
		data := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
		h := npyHeader{fortran: true, shape: shape, itemSize: itemSize, dataSize: size}
		var b bytes.Buffer
		if err := h.arrange(t.Context(), &b, data); err != nil {
			t.Fatal(err)
		}
		got := b.Bytes()
		for i := range size / itemSize {
			at, rest := 0, i
			before := size / itemSize
			for d := len(shape) - 1; d >= 0; d-- {
				before /= shape[d]
				at += rest % shape[d] * before
				rest /= shape[d]
			}
			if g, w := got[i*itemSize:][:itemSize], data[at*itemSize:][:itemSize]; !bytes.Equal(g, w) {
				t.Fatalf("element %d: got %x, want %x", i, g, w)
			}
		}
	})
}
