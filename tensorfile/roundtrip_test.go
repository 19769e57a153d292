package tensorfile

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tensors draws tensors of distinct names and of any types but those left out, with any bits.
func tensors(without ...DType) *rapid.Generator[[]Tensor] {
	types := slices.DeleteFunc(allDTypes(), func(d DType) bool { return slices.Contains(without, d) })
	one := rapid.Custom(func(t *rapid.T) Tensor {
		x := Tensor{
			Name:  rapid.StringMatching(`[a-zA-Zäβ名 "<]{1,8}(\.[0-9]{1,2})?`).Draw(t, "name"),
			DType: rapid.SampledFrom(types).Draw(t, "dtype"),
			Shape: rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "shape"),
		}
		size := must(byteSize(x.Shape, x.DType.Size()))
		x.Data = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
		return x
	})
	return rapid.SliceOfNDistinct(one, 0, 6, func(t Tensor) string { return t.Name })
}

func allDTypes() []DType {
	var all []DType
	for d := F64; d.valid(); d++ {
		all = append(all, d)
	}
	return all
}

func TestSafetensorsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tensors().Draw(t, "tensors")
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		var b bytes.Buffer
		if err := encodeSafetensors(&b, want, metadata); err != nil {
			t.Fatal(err)
		}
		f, err := ParseSafetensors(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, f.Tensors, want)
		if !maps.Equal(f.Metadata, metadata) {
			t.Fatalf("metadata %q, want %q", f.Metadata, metadata)
		}
	})
}

func TestNPYRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, want := range tensors(BF16, F8E4M3, F8E5M2).Draw(t, "tensors") {
			want.Name = ""
			var b bytes.Buffer
			if err := encodeOnlyNPY(&b, []Tensor{want}, nil); err != nil {
				t.Fatal(err)
			}
			got, err := ParseNPY(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			requireSame(t, []Tensor{got}, []Tensor{want})
		}
	})
}

func TestNPZRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tensors(BF16, F8E4M3, F8E5M2).Draw(t, "tensors")
		var b, again bytes.Buffer
		if err := encodeNPZ(&b, want, map[string]string{"_scale": "0.125", "_empty": "", "_note": "ä\x00b"}); err != nil {
			t.Fatal(err)
		}
		f, err := ParseNPZ(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, f.Tensors, want)
		if f.Metadata["_scale"] != "0.125" || f.Metadata["_note"] != "ä\x00b" {
			t.Fatalf("metadata %q", f.Metadata)
		}
		if s, ok := f.Metadata["_empty"]; !ok || s != "" {
			t.Fatalf("metadata %q", f.Metadata)
		}
		// What was read can be written, and reads the same.
		if err := encodeNPZ(&again, f.Tensors, f.Metadata); err != nil {
			t.Fatal(err)
		}
		g, err := ParseNPZ(again.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, g.Tensors, want)
		if !maps.Equal(g.Metadata, f.Metadata) {
			t.Fatalf("metadata %q, want %q", g.Metadata, f.Metadata)
		}
	})
}
