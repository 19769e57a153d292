package tensorfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkOpen opens a safetensors file of 64 MiB. The bytes per second count the file, of which only
// the header is read: what the mapping saves.
func BenchmarkOpen(b *testing.B) {
	const numTensors, tensorSize = 256, 256 << 10
	tensors := make([]Tensor, numTensors)
	for i := range tensors {
		tensors[i] = Tensor{fmt.Sprintf("layers.%d.weight", i), BF16, []int{tensorSize / 2}, make([]byte, tensorSize)}
	}
	path := filepath.Join(b.TempDir(), "model.safetensors")
	if err := Write(path, tensors, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(numTensors * tensorSize)
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseHeader parses the header of a model of 1000 tensors; the bytes are the header's.
func BenchmarkParseHeader(b *testing.B) {
	tensors := make([]Tensor, 1000)
	for i := range tensors {
		tensors[i] = Tensor{fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), BF16, []int{1, 1}, make([]byte, 2)}
	}
	var w bytes.Buffer
	if err := encodeSafetensors(&w, tensors, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(w.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSafetensors(w.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFloat32s converts 1 MiB; the bytes are the tensor's own.
func BenchmarkFloat32s(b *testing.B) {
	for _, d := range []DType{F64, F32, F16, BF16, F8E4M3, F8E5M2} {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			data := make([]byte, 1<<20)
			for i := range data {
				data[i] = byte(i * 31)
			}
			x := vector(d, data)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := x.Float32s(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParseNPZ reads 1 MiB of zeros, in place or inflated.
func BenchmarkParseNPZ(b *testing.B) {
	array := npy("'<f4'", "False", "(262144,)", make([]byte, 1<<20))
	for name, data := range map[string][]byte{
		"stored":   zipOf(member{name: "x.npy", body: array}),
		"deflated": zipOf(deflated("x.npy", array)),
	} {
		b.Run("method="+name, func(b *testing.B) {
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseNPZ(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
