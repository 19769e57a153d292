package kv_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// TestLossWhileOthersAppend: what is compared does not change meanwhile. The race
// detector sees when it does.
func TestLossWhileOthersAppend(t *testing.T) {
	cache := open(t, kv.Config{NumKVHeads: 1, KeyDim: 4, ValueDim: 4, PageSize: 2, NumPages: 64})
	seq := cache.NewSequence()
	x := []float32{1, 2, 3, 4}
	if err := seq.Append(x, x); err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for range 200 {
			if err := errors.Join(seq.Truncate(0), seq.Append(x, x)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		if loss, err := seq.Loss(0, x, x); loss != (kv.Loss{}) || err != nil && !errors.Is(err, attn.ErrShape) {
			t.Fatalf("loss is %+v, %v, want none or no token", loss, err)
		}
	}
}

func TestLoss(t *testing.T) {
	cfg := kv.Config{
		NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 2, NumPages: 4,
		KeyType: kv.I8, KeyScales: kv.Scales{Kind: kv.TensorScale, Values: []float32{2}}, ValueType: kv.F8E4M3,
	}
	cache := open(t, cfg)
	seq := cache.NewSequence()
	k := []float32{8, 7, 2.5, -4, 6, 0}
	v := []float32{1, 1, nan, 1, inf, 0}
	if err := seq.Append(append([]float32{9, 9}, k...), append([]float32{1, 0}, v...)); err != nil {
		t.Fatal(err)
	}
	got, err := seq.Loss(1, k, v)
	want := kv.Loss{Keys: kv.Deviation{Max: 1, Mean: 1.5 / 6}, Values: kv.Deviation{NonFinite: 1}}
	if err != nil || got != want {
		t.Errorf("loss is %+v (%v), want %+v", got, err, want)
	}
	if _, err := seq.Loss(2, k, v); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "3 tokens from position 2 on of a sequence of 4") {
		t.Errorf("beyond the end: %v, want ErrShape", err)
	}
	if _, err := seq.Loss(0, k[1:], v); !errors.Is(err, attn.ErrShape) {
		t.Errorf("half a token: %v, want ErrShape", err)
	}
	if err := seq.Free(); err != nil {
		t.Fatal(err)
	}
	if _, err := seq.Loss(0, nil, nil); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("of a freed sequence: %v, want ErrFreed", err)
	}
}

// TestLossByType: finer types lose less, f32 nothing, and none more than half a step.
func TestLossByType(t *testing.T) {
	const n, dim = 50, 40
	x := make([]float32, n*dim)
	for i := range x {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	max := map[kv.DType]float64{}
	for _, dtype := range types {
		seq := open(t, kv.Config{NumKVHeads: 1, KeyDim: dim, ValueDim: dim, PageSize: 7, NumPages: n, KeyType: dtype, ValueType: dtype}).NewSequence()
		if err := seq.Append(x, x); err != nil {
			t.Fatal(err)
		}
		loss, err := seq.Loss(0, x, x)
		if err != nil || loss.Keys != loss.Values || loss.Keys.NonFinite != 0 {
			t.Errorf("%v: %+v (%v)", dtype, loss, err)
		}
		if loss.Keys.Mean > loss.Keys.Max || loss.Keys.Mean < loss.Keys.Max/10 {
			t.Errorf("%v: of mean %v and max %v, one is wrong", dtype, loss.Keys.Mean, loss.Keys.Max)
		}
		max[dtype] = loss.Keys.Max
	}
	for dtype, limit := range map[kv.DType]float64{kv.F32: 0, kv.F16: 0x1p-12, kv.BF16: 0x1p-9, kv.I8: 0.5 / 127, kv.F8E4M3: 16. / 448, kv.F8E5M2: 4096. / 57344, kv.I4: 0.5 / 7} {
		if got := max[dtype]; got > limit*(1+1e-6) || got < limit/2 {
			t.Errorf("%v loses at most %v, want %v to %v", dtype, got, limit/2, limit)
		}
	}
}
