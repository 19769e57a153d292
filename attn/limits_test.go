package attn_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
)

// normal is a sequence of one head of standard-normal numbers, with an offset.
func normal(rng *rand.Rand, shape attn.Shape, n int, offset float64) (q []float32, m memory) {
	row := func(dim int, offset float64) []float32 {
		r := make([]float32, dim)
		for i := range r {
			r[i] = float32(offset + rng.NormFloat64())
		}
		return r
	}
	for range n {
		m.k, m.v = append(m.k, row(shape.KeyDim, offset)), append(m.v, row(shape.ValueDim, 0))
	}
	return row(shape.KeyDim*shape.NumHeads, offset), m
}

func narrow(x []float64) []float32 {
	r := make([]float32, len(x))
	for i, v := range x {
		r[i] = float32(v)
	}
	return r
}

// TestLimitsSeeFaults: in an ordinary case, whose scores stay within ±40 even
// before signs cancel, the slack that limits give to large scores hides no fault of
// 3e-5 of the largest value, in any row.
func TestLimitsSeeFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{16, 64, 128, 256} {
		shape := attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: dim, ValueDim: 3}
		q, m := normal(rng, shape, 300, 0)
		// The largest sum of absolute products becomes 40.
		opt := attn.Options{Scale: 1}
		for _, k := range m.k {
			for head := range shape.NumHeads {
				sum := 0.0
				for i := range dim {
					sum += math.Abs(float64(q[head*dim+i]) * float64(k[i]))
				}
				opt.Scale = min(opt.Scale, 40/sum)
			}
		}
		ref := direct(t, shape, opt, q, m)
		limits := attn.Float32Limits(dim)
		for row := range ref.LSE {
			if !(ref.AbsScore[row] > 10 && ref.AbsScore[row] <= 40) {
				t.Fatalf("dim %d: scores are made of %v, want 10 to 40", dim, ref.AbsScore[row])
			}
			out, lse := narrow(ref.Out), narrow(ref.LSE)
			if d, err := ref.Compare(out, lse, limits); err != nil || !d.Within() || d.OutShare > 0.02 {
				t.Fatalf("dim %d: the reference itself: %+v, %v", dim, d, err)
			}
			out[row*3+1] += 3e-5 * float32(ref.AbsValue[row])
			if d, _ := ref.Compare(out, lse, limits); d.Within() {
				t.Errorf("dim %d, row %d: out off by 3e-5 of the largest value passes: %+v", dim, row, d)
			}
			out[row*3+1] = float32(ref.Out[row*3+1])
			lse[row] += 1e-4
			if d, _ := ref.Compare(out, lse, limits); d.Within() {
				t.Errorf("dim %d, row %d: an LSE off by 1e-4 passes: %+v", dim, row, d)
			}
		}
	}
}

// TestLimitsFollowScores: what float32 makes of scores that share a large constant,
// in the sequential sum that is its worst, is within the limits, and beyond
// those that do not look at the scores.
func TestLimitsFollowScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	blind := attn.Float32Limits(64)
	blind.Score = 0
	shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 64, ValueDim: 4}
	beyond := 0
	for _, offset := range []float64{10, 30, 100, 300} {
		q, m := normal(rng, shape, 500, offset)
		opt := attn.Options{}
		ref := direct(t, shape, opt, q, m)
		state := attn.Empty[float32](shape.ValueDim)
		for j, k := range m.k {
			s := float32(0)
			for i, x := range q {
				s += x * 0.125 * k[i]
			}
			state.Push(float64(s), m.v[j])
		}
		lse := []float32{float32(state.LSE())}
		d, err := ref.Compare(state.O, lse, attn.Float32Limits(64))
		if err != nil || !d.Within() {
			t.Errorf("offset %v: %+v, %v", offset, d, err)
		}
		if d, _ := ref.Compare(state.O, lse, blind); !d.Within() {
			beyond++
		}
	}
	if beyond < 2 {
		t.Errorf("%d of 4 results are beyond limits that do not follow the scores, want 2 at least", beyond)
	}
}

// TestLSEFollowsScores: products that cancel leave a small LSE with the error of
// large terms.
func TestLSEFollowsScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 512, ValueDim: 1}
	blind := attn.Float32Limits(512)
	blind.Score = 0
	beyond := 0
	for range 30 {
		q, m := normal(rng, shape, 3, 0)
		ref := direct(t, shape, attn.Options{Scale: 2}, q, m)
		state := attn.Empty[float32](1)
		for j, k := range m.k {
			s := float32(0)
			for i, x := range q {
				s += 2 * x * k[i]
			}
			state.Push(float64(s), m.v[j])
		}
		lse := []float32{float32(state.LSE())}
		if d, err := ref.Compare(nil, lse, attn.Float32Limits(512)); err != nil || !d.Within() {
			t.Errorf("%+v, %v", d, err)
		}
		if d, _ := ref.Compare(nil, lse, blind); !d.Within() {
			beyond++
		}
	}
	if beyond == 0 {
		t.Error("no result is beyond a limit that does not follow the scores")
	}
}

// TestFarKeysGiveNoSlack: a key of a huge score that weighs nothing leaves the
// limits as they are, and so do a hidden key's score and value.
func TestFarKeysGiveNoSlack(t *testing.T) {
	m := fill(3, one, 1, 1)
	plain := direct(t, one, attn.Options{}, []float32{1}, m)
	m.k[0][0] = -1e30
	m.k[1][0], m.v[1][0] = 1e30, 1e30
	opt := attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: 1, Keys: 3, Visible: []uint8{1, 0, 1}}}
	if ref := direct(t, one, opt, []float32{1}, m); ref.AbsScore[0] != plain.AbsScore[0] || ref.AbsValue[0] != 1 {
		t.Errorf("scores are made of %v and the largest value is %v, want %v and 1", ref.AbsScore, ref.AbsValue, plain.AbsScore)
	}
	m.k[0][0] = -20
	if ref := direct(t, one, opt, []float32{1}, m); ref.AbsScore[0] > plain.AbsScore[0]+1e-6 {
		t.Errorf("with a key of weight e⁻²¹ scores are made of %v, want %v", ref.AbsScore, plain.AbsScore)
	}
}

// TestAbsScore: signs do not cancel, the scale's own aside; a sink takes its share.
func TestAbsScore(t *testing.T) {
	shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 2, ValueDim: 1}
	m := memory{k: [][]float32{{3, 3}}, v: [][]float32{{-2}}}
	for _, tc := range []struct {
		opt  attn.Options
		want float64
	}{
		{attn.Options{Scale: 0.5}, 6},
		{attn.Options{Scale: -0.5}, 6},
		{attn.Options{Scale: 0.5, Softcap: 1}, 6},
		{attn.Options{Scale: 0.5, Sinks: []float32{0}}, 3},
	} {
		ref := direct(t, shape, tc.opt, []float32{2, -2}, m)
		if ref.AbsScore[0] != tc.want || ref.AbsValue[0] != 2 {
			t.Errorf("%+v: scores are made of %v and the largest value is %v, want %v and 2", tc.opt, ref.AbsScore, ref.AbsValue, tc.want)
		}
	}
}

// TestDenormalValues: no float32 lies nearer than 2⁻¹⁴⁹ to some results.
func TestDenormalValues(t *testing.T) {
	m := fill(2, one, 1, math.SmallestNonzeroFloat32)
	m.v[1][0] = 0
	ref := direct(t, one, attn.Options{}, []float32{1}, m)
	if d, err := ref.Compare([]float32{0}, nil, limits); err != nil || !d.Within() {
		t.Errorf("2⁻¹⁵⁰ as 0: %+v, %v", d, err)
	}
	if d, _ := ref.Compare([]float32{2 * math.SmallestNonzeroFloat32}, nil, limits); d.Within() {
		t.Errorf("2⁻¹⁵⁰ as 2⁻¹⁴⁸ passes: %+v", d)
	}
}

// TestWorstRowIsReported: a row is judged by its own limit, not by its neighbour's.
func TestWorstRowIsReported(t *testing.T) {
	ref := attn.Reference{
		Out: []float64{0, 0, 0}, LSE: []float64{0, 0, 0},
		AbsScore: []float64{0, 0, 0}, AbsValue: []float64{1, 1000, 1},
	}
	d, err := ref.Compare([]float32{0, 1e-3, 2e-5}, nil, limits)
	if err != nil || d.Within() || math.Abs(d.OutShare-2) > 1e-3 || math.Abs(d.OutLimit-1e-5) > 1e-8 || d.Out != float64(float32(1e-3)) {
		t.Errorf("%+v, %v; want out of 1e-3, a share of 2, a limit of 1e-5", d, err)
	}
}

// TestBlocksEqualWhole: queries judged block by block are what they are judged at
// once, under rules that look at positions.
func TestBlocksEqualWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	shape := attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 4, ValueDim: 3}
	_, m := normal(rng, shape, 9, 0)
	const n = 7
	q := make([]float32, n*shape.NumHeads*shape.KeyDim)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	mask := &attn.Mask{Seqs: 1, Queries: n, Keys: 9, Visible: make([]uint8, n*9)}
	for i := range mask.Visible {
		mask.Visible[i] = uint8(rng.IntN(3))
	}
	opt := attn.Options{Causal: true, Window: 6, Slopes: []float32{0.5, 1}, Sinks: []float32{0, 1}, Mask: mask}
	whole := direct(t, shape, opt, q, m)
	for size := 1; size <= n; size++ {
		var got attn.Reference
		for first := 0; first < n; first += size {
			last := min(first+size, n)
			row := shape.NumHeads * shape.KeyDim
			ref, err := attn.DirectBlock(shape, &opt, 0, q[first*row:last*row], m, first, n)
			if err != nil {
				t.Fatal(err)
			}
			got.Out, got.LSE = append(got.Out, ref.Out...), append(got.LSE, ref.LSE...)
			got.AbsScore, got.AbsValue = append(got.AbsScore, ref.AbsScore...), append(got.AbsValue, ref.AbsValue...)
		}
		if !slices.Equal(got.Out, whole.Out) || !slices.Equal(got.LSE, whole.LSE) ||
			!slices.Equal(got.AbsScore, whole.AbsScore) || !slices.Equal(got.AbsValue, whole.AbsValue) {
			t.Errorf("blocks of %d queries: not what all at once give", size)
		}
	}
}

func TestDirectBlockRefuses(t *testing.T) {
	m, q := fill(3, one, 1, 1), []float32{1, 1}
	for _, at := range [][2]int{{-1, 4}, {0, 1}, {3, 4}, {math.MaxInt, math.MaxInt}, {0, -1}, {5, 4}} {
		if _, err := attn.DirectBlock(one, &attn.Options{}, 0, q, m, at[0], at[1]); !errors.Is(err, attn.ErrShape) {
			t.Errorf("two queries from %d of %d: %v, want ErrShape", at[0], at[1], err)
		}
	}
	masked := &attn.Options{Mask: &attn.Mask{Seqs: 2, Queries: 2, Keys: 3, Visible: make([]uint8, 12)}}
	for _, seq := range []int{-1, 2} {
		if _, err := attn.Direct(one, masked, seq, q, m); !errors.Is(err, attn.ErrShape) {
			t.Errorf("sequence %d of a mask for 2: %v, want ErrShape", seq, err)
		}
	}
	for name, err := range map[string]error{
		"no options": second(attn.Direct(one, nil, 0, q, m)),
		"no keys":    second(attn.Direct(one, &attn.Options{}, 0, q, nil)),
	} {
		if !errors.Is(err, attn.ErrOption) {
			t.Errorf("%s: %v, want ErrOption", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
