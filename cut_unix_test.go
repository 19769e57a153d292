//go:build unix

package flashdec_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/tensorfile"
)

// TestKeysOfACutFileAreAnError: a file is cut short while a decode reads keys and values where they lie. At every
// level of kernels, by the caller and by helpers, that is an error that names the file, and the engine goes on.
func TestKeysOfACutFileAreAnError(t *testing.T) {
	const heads, keys, dim = 4, 512, 32
	shape := attn.Shape{NumHeads: heads, NumKVHeads: heads, KeyDim: dim, ValueDim: dim}
	x := make([]float32, heads*keys*dim)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	tensor := tensorfile.Tensor{Name: "kv", DType: tensorfile.F32, Shape: []int{1, heads, keys, dim}, Data: tensorfile.Bytes(x)}
	viewOf := func(data []byte) kv.View {
		view, err := kv.Contiguous(kv.Tensor{Data: data}, kv.Tensor{Data: data}, 1, heads, keys, dim, dim, nil)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	for _, level := range simd.Levels() {
		restore, err := simd.SetLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		for _, threads := range []int{1, 4} {
			eng, err := flashdec.Open(flashdec.Options{Threads: threads, HelperWork: 1})
			if err != nil {
				t.Fatal(err)
			}
			step, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{keys}, NumSplits: 8})
			if err != nil {
				t.Fatal(err)
			}
			decode := func(data []byte) ([]float32, error) {
				out := step.NewOutput()
				err := eng.Decode(context.Background(), step, x[:heads*dim], viewOf(data), out)
				return out.Out, err
			}
			want, err := decode(tensor.Data)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "kv.safetensors")
			if err := tensorfile.Write(path, []tensorfile.Tensor{tensor}, nil); err != nil {
				t.Fatal(err)
			}
			f, err := tensorfile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := decode(f.Tensors[0].Data); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %d threads: in place: %v, and the same bits: %t", level, threads, err, slices.Equal(got, want))
			}
			if err := os.Truncate(path, int64(len(tensor.Data)-os.Getpagesize())); err != nil { // one item's keys
				t.Fatal(err)
			}
			for range 50 { // whoever takes that item
				if _, err := decode(f.Tensors[0].Data); !errors.Is(err, tensorfile.ErrCut) || !strings.HasPrefix(err.Error(), path+": ") {
					t.Errorf("%s, %d threads: cut short: error %v, want %v of the path", level, threads, err, tensorfile.ErrCut)
				}
			}
			if got, err := decode(tensor.Data); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %d threads: afterwards: %v, and the same bits: %t", level, threads, err, slices.Equal(got, want))
			}
			if err := errors.Join(eng.Close(), f.Close()); err != nil {
				t.Error(err)
			}
		}
		restore()
	}
}
