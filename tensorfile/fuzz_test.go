package tensorfile

import (
	"bytes"
	"io"
	"maps"
	"testing"
)

// requireSound holds a parsed tensor to what its type promises, and its accessors to not panicking.
func requireSound(t *testing.T, x Tensor) {
	if err := x.check(); err != nil {
		t.Fatal(err)
	}
	_, floatsErr := x.Float32s()
	_, intsErr := x.Ints()
	if floatsErr != nil && x.DType.is(float) || intsErr == nil && x.DType.is(float) {
		t.Fatalf("tensor %q of %v: Float32s says %v, Ints %v", x.Name, x.DType, floatsErr, intsErr)
	}
}

// requireStable writes what was read, and wants to read the same from it.
func requireStable(t *testing.T, f *File,
	encode func(io.Writer, []Tensor, map[string]string) error, parse func([]byte) (*File, error),
) {
	for _, x := range f.Tensors {
		requireSound(t, x)
	}
	var b bytes.Buffer
	if err := encode(&b, f.Tensors, f.Metadata); err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	again, err := parse(b.Bytes())
	if err != nil {
		t.Fatalf("what was written cannot be read: %v", err)
	}
	requireSame(t, again.Tensors, f.Tensors)
	if !maps.Equal(again.Metadata, f.Metadata) {
		t.Fatalf("metadata %q, want %q", again.Metadata, f.Metadata)
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2,0],"data_offsets":[4,4]},"__metadata__":{"k":"v"}} `, 4))
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[1152921504606846976,4],"data_offsets":[0,4]}}`, 4))
	f.Add(safetensors(`{"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Add(safetensors(`{"x":[[[[{"x":-1e999`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file *File
		var err error
		if got, limit := allocated(func() { file, err = ParseSafetensors(data) }), memoryFor(len(data)); got > limit {
			t.Fatalf("%d bytes made the parser allocate %d, limit %d", len(data), got, limit)
		}
		if err == nil {
			requireStable(t, file, encodeSafetensors, ParseSafetensors)
		}
	})
}

func FuzzNPY(f *testing.F) {
	for _, seed := range [][]byte{
		npy("'<f4'", "False", "(1, 2)", make([]byte, 8)),
		npy("'>u2'", "True", "(2, 3)", make([]byte, 12)),
		npyOf(2, `{"descr":"|b1","shape":(),"fortran_order":True}`, []byte{1}),
		npyOf(3, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,)}", nil),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var x Tensor
		var err error
		if got, limit := allocated(func() { x, err = ParseNPY(data) }), memoryFor(len(data)); got > limit {
			t.Fatalf("%d bytes made the parser allocate %d, limit %d", len(data), got, limit)
		}
		if err != nil {
			return
		}
		requireSound(t, x)
		var b bytes.Buffer
		if err := encodeNPY(&b, x); err != nil {
			t.Fatal(err)
		}
		again, err := ParseNPY(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, []Tensor{again}, []Tensor{x})
	})
}

func FuzzNPZ(f *testing.F) {
	array := npy("'<f4'", "False", "(2,)", make([]byte, 8))
	f.Add(zipOf(member{name: "x.npy", body: array}, deflated("y.npy", array)))
	f.Add(zipOf(member{name: "scale.npy", body: npy("'<f8'", "False", "()", make([]byte, 8))}))
	f.Add(zipOf(member{name: "name.npy", body: npy("'<U2'", "False", "()", ucs4("ok"))}))
	f.Add(zipOf(deflated("z.npy", npy("'|u1'", "False", "(4096,)", make([]byte, 4096)))))
	f.Add(zipOf(member{name: "../x.npy", body: array, flags: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file *File
		var err error
		got := allocated(func() { file, err = ParseNPZ(data) })
		// What was truly inflated may be maxDeflateRatio times its share of the file, and grew by doubling.
		limit := memoryFor(len(data))
		if err == nil {
			for _, x := range file.Tensors {
				limit += 4 * uint64(len(x.Data))
			}
		} else {
			limit += 4 * maxDeflateRatio * uint64(len(data))
		}
		if got > limit {
			t.Fatalf("%d bytes made the parser allocate %d, limit %d", len(data), got, limit)
		}
		if err == nil {
			requireStable(t, file, encodeNPZ, ParseNPZ)
		}
	})
}
