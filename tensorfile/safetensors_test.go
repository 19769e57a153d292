package tensorfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// safetensors puts the length before a header and so many bytes of data, 0, 1, 2, …, after it.
func safetensors(header string, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range size {
		b = append(b, byte(i))
	}
	return b
}

func TestParseSafetensors(t *testing.T) {
	f, err := ParseSafetensors(safetensors(`{
		"q": {"shape": [2, 1], "dtype": "F16", "data_offsets": [1, 5]},
		"__metadata__": {"scale": "0.125", "note": "\u00e4"},
		"empty": {"dtype": "F32", "shape": [3, 0], "data_offsets": [5, 5]},
		"a": {"dtype": "BOOL", "shape": [], "data_offsets": [0, 1]}}   `, 5))
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, f.Tensors, []Tensor{
		{"q", F16, []int{2, 1}, []byte{1, 2, 3, 4}},
		{"empty", F32, []int{3, 0}, nil},
		{"a", Bool, nil, []byte{0}},
	})
	if want := map[string]string{"scale": "0.125", "note": "ä"}; !maps.Equal(f.Metadata, want) {
		t.Errorf("metadata %v, want %v", f.Metadata, want)
	}
	if x, ok := f.Tensor("q"); !ok || x.DType != F16 {
		t.Errorf("Tensor(q) = %v, %v", x, ok)
	}
	if x, ok := f.Tensor("r"); ok {
		t.Errorf("Tensor(r) = %v", x)
	}
	if q, _ := f.Tensor("q"); cap(q.Data) != len(q.Data) {
		t.Errorf("appending to a tensor would overwrite the next: cap %d, len %d", cap(q.Data), len(q.Data))
	}
	for _, header := range []string{`{}`, `{"__metadata__":{}}`, `{ }  `} {
		if f, err := ParseSafetensors(safetensors(header, 0)); err != nil || len(f.Tensors) != 0 {
			t.Errorf("%s: %v, %v", header, f, err)
		}
	}
}

func TestParseSafetensorsRefusesHeaderLength(t *testing.T) {
	for _, c := range []struct {
		name     string
		data     []byte
		sentinel error
		words    string
	}{
		{"empty", nil, ErrFormat, "0 bytes"},
		{"seven bytes", make([]byte, 7), ErrFormat, "7 bytes"},
		{"length 0", make([]byte, 8), ErrFormat, "'{'"},
		{"past the file", append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, "{}"...), ErrFormat, "ends 2 bytes into it"},
		{"absurd", append(bytes.Repeat([]byte{0xff}, 8), "{}"...), ErrTooLarge, "18446744073709551615"},
		{"past the limit", append([]byte{1, 0xe1, 0xf5, 5, 0, 0, 0, 0}, "{}"...), ErrTooLarge, "100000001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseSafetensors(c.data)
			wantError(t, err, c.sentinel, c.words)
		})
	}
	whole := safetensors(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4)
	for n := range whole {
		if _, err := ParseSafetensors(whole[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, len(whole))
		}
	}
}

func TestParseSafetensorsRefusesJSON(t *testing.T) {
	const x = `"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`
	for _, c := range []struct{ header, words string }{
		{` {}`, "'{'"},
		{`[]`, "'{'"},
		{`{"a`, "unexpected EOF"},
		{`{` + x, "ends early"},
		{`{` + x + `,}`, "invalid character"},
		{`{` + x + `}{}`, "goes on"},
		{`{` + x + `}}`, "goes on"},
		{`{` + x + "}\x00", "goes on"},
		{`{` + x + "\xff}", "UTF-8"},
		{`{"` + "\xc0\x80" + `":1}`, "UTF-8"},
		{`{` + x + `,` + x + `}`, `"x" comes twice`},
		{`{` + x + `,` + strings.Replace(x, `"x"`, `"\u0078"`, 1) + `}`, `"x" comes twice`},
		{`{"__metadata__":{"a":"1","a":"2"}}`, `"a" comes twice`},
		{`{"__metadata__":{},"__metadata__":{}}`, "comes twice"},
		{`{"__metadata__":{"a":1}}`, `metadata "a": wanted a string, got the number "1"`},
		{`{"__metadata__":{"a":null}}`, "null"},
		{`{"__metadata__":{"a":{}}}`, "wanted a string"},
		{`{"__metadata__":null}`, "null"},
		{`{"__metadata__":[]}`, "metadata"},
		{`{"x":null}`, `"x"`},
		{`{"x":[]}`, `"x"`},
		{`{"x":{}}`, "0 of the fields"},
		{`{"x":{"dtype":"U8","shape":[1]}}`, "2 of the fields"},
		{`{"x":{"dtype":"U8","dtype":"U8","shape":[1]}}`, `"dtype" comes twice`},
		{`{"x":{"DType":"U8","shape":[1],"data_offsets":[0,1]}}`, `"DType"`},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}}`, `"stride"`},
		{`{"x":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}`, "dtype: wanted a string"},
		{`{"x":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}`, "shape"},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, "1 numbers"},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, "more than 2"},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1.0]}}`, `"1.0" is not a count`},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, `"-1" is not a count`},
		{`{"x":{"dtype":"U8","shape":[1],"data_offsets":["0",1]}}`, "wanted a number"},
		{`{"x":` + strings.Repeat("[", 20000), `"x"`},
		{`{"x":` + strings.Repeat(`{"x":`, 20000), `"x"`},
		{`{"` + strings.Repeat("n", 5000) + `":null}`, "nnn"},
	} {
		t.Run(c.header[:min(len(c.header), 60)], func(t *testing.T) {
			_, err := ParseSafetensors(safetensors(c.header, 1))
			wantError(t, err, ErrFormat, c.words)
		})
	}
}

func TestParseSafetensorsRefusesTensor(t *testing.T) {
	for _, c := range []struct {
		dtype, shape, offsets string
		sentinel              error
		words                 string
	}{
		{"F7", "[8]", "[0,8]", ErrDType, `"F7"`},
		{"f32", "[2]", "[0,8]", ErrDType, `"f32"`},
		{"DType(0)", "[2]", "[0,8]", ErrDType, `"DType(0)"`},
		{"", "[2]", "[0,8]", ErrDType, `""`},
		{"F32", "[3]", "[0,8]", ErrShape, "wants 12 bytes, data_offsets [0, 8] give 8"},
		{"F32", "[]", "[0,8]", ErrShape, "wants 4 bytes"},
		{"F32", "[0]", "[0,8]", ErrShape, "wants 0 bytes"},
		{"F32", "[-2]", "[0,8]", ErrShape, `"-2"`},
		{"F32", "[-0]", "[0,0]", ErrShape, `"-0"`},
		{"F32", "[2.0]", "[0,8]", ErrShape, `"2.0"`},
		{"F32", "[2e0]", "[0,8]", ErrShape, `"2e0"`},
		{"F32", "[true]", "[0,8]", ErrShape, "true"},
		{"F32", `["2"]`, "[0,8]", ErrShape, "wanted a number"},
		{"F32", "[9223372036854775808]", "[0,8]", ErrTooLarge, `"9223372036854775808"`},
		{"F32", "[99999999999999999999999999]", "[0,8]", ErrTooLarge, "passes"},
		{"F32", "[" + strings.Repeat("1,", 64) + "2]", "[0,8]", ErrShape, "more than 64"},
		{"F32", "[1152921504606846976,1152921504606846976]", "[0,8]", ErrTooLarge, "1152921504606846976"},
		{"F32", "[2147483648,2147483650]", "[0,8]", ErrTooLarge, ""}, // 2^64 + 8 bytes: 8 when it wraps
		{"U8", "[8]", "[0,9]", ErrFormat, "8 bytes of data"},
		{"U8", "[8]", "[0,2147483647]", ErrFormat, "8 bytes of data"},
		{"U8", "[8]", "[8,0]", ErrFormat, "end before they begin"},
		{"U8", "[7]", "[1,8]", ErrFormat, "leave a hole from 0"},
		{"U8", "[7]", "[0,7]", ErrFormat, "1 bytes follow the last tensor"},
	} {
		t.Run(c.dtype+c.shape+c.offsets, func(t *testing.T) {
			header := fmt.Sprintf(`{"x":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, c.dtype, c.shape, c.offsets)
			_, err := ParseSafetensors(safetensors(header, 8))
			wantError(t, err, c.sentinel, c.words)
			if !strings.Contains(c.words, "follow") && !strings.Contains(err.Error(), `tensor "x"`) {
				t.Errorf("error %q does not name the tensor", err)
			}
		})
	}
}

func TestParseSafetensorsRefusesTiling(t *testing.T) {
	for _, c := range []struct {
		a, b  [2]int
		words string
	}{
		{[2]int{0, 4}, [2]int{4, 8}, ""},
		{[2]int{4, 8}, [2]int{0, 4}, ""},
		{[2]int{0, 8}, [2]int{0, 0}, ""},
		{[2]int{0, 8}, [2]int{8, 8}, ""},
		{[2]int{0, 5}, [2]int{4, 8}, "overlap the tensor that ends at 5"},
		{[2]int{0, 8}, [2]int{0, 8}, "overlap"},
		{[2]int{0, 8}, [2]int{4, 4}, "overlap"},
		{[2]int{0, 3}, [2]int{4, 8}, "hole from 3"},
		{[2]int{0, 2}, [2]int{2, 6}, "2 bytes follow"},
	} {
		header := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]},"b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}`,
			c.a[1]-c.a[0], c.a[0], c.a[1], c.b[1]-c.b[0], c.b[0], c.b[1])
		t.Run(fmt.Sprint(c.a, c.b), func(t *testing.T) {
			_, err := ParseSafetensors(safetensors(header, 8))
			if c.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, ErrFormat, c.words)
		})
	}
}

func TestSafetensorsMemoryFollowsTheFile(t *testing.T) {
	huge := `{"x":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}}`
	for _, data := range [][]byte{
		safetensors(huge, 1),
		append([]byte{0, 0xe1, 0xf5, 5, 0, 0, 0, 0}, "{}"...), // a header of exactly the limit
		safetensors(`{"x":{"shape":[`+strings.Repeat("0,", 1<<20), 0),
		safetensors(`{"__metadata__":`+strings.Repeat("[", 1<<20), 0),
	} {
		got := allocated(func() { _, _ = ParseSafetensors(data) })
		if limit := memoryFor(0) + uint64(len(data)); got > limit {
			t.Errorf("%d bytes that begin %.60q made the parser allocate %d, limit %d", len(data), data[8:], got, limit)
		}
	}
}
