package simd

import "math"

func scoresPlain(e Elem) (f HeadsScoresFunc) {
	f = func(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead) {
		if heads != nil {
			f.oneByOne(s, stride, q, rows, dim, k, heads, ahead)
			return
		}
		scoresGeneric(e, s, stride, q, rows, dim, k)
	}
	return f
}

func accumulatePlain(e Elem) (f HeadsAccumulateFunc) {
	f = func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, heads *Heads, ahead Ahead) {
		if heads != nil {
			f.oneByOne(o, rows, dim, p, stride, alpha, v, heads, ahead)
			return
		}
		if len(v.Off) > TileKeys {
			f.tiles(o, rows, dim, p, stride, alpha, v, ahead)
			return
		}
		accumulateGeneric(e, o, rows, dim, p, stride, alpha, v)
	}
	return f
}

// chunk is how many elements of a row the plain kernels widen at a time, and
// block how many rows of the group then use them.
const (
	chunk = 128
	block = 8
)

func scoresGeneric(e Elem, s []float32, stride int, q []float32, rows, dim int, k Tile) {
	var key [chunk]float32
	for j, off := range k.Off {
		for r := range rows {
			s[r*stride+j] = 0
		}
		for d := 0; d < dim; d += chunk {
			n := min(chunk, dim-d)
			widenGeneric(key[:n], e, k.Data[off+e.RowBytes(d):])
			for r := range rows {
				s[r*stride+j] += dotGeneric(q[r*dim+d:][:n], key[:n])
			}
		}
	}
}

// dotGeneric is Σ a·b in four partial sums.
func dotGeneric(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a) && i+4 <= len(b); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func accumulateGeneric(e Elem, o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile) {
	for r := 0; r < rows; r += block {
		for d := 0; d < dim; d += chunk {
			accumulateBlock(e, o[r*dim+d:], min(block, rows-r), dim, min(chunk, dim-d), p[r*stride:], stride, alpha[r:], v, e.RowBytes(d))
		}
	}
}

// accumulateBlock does n elements of each row, which begin skip bytes into a value.
func accumulateBlock(e Elem, o []float32, rows, dim, n int, p []float32, stride int, alpha []float32, v Tile, skip int) {
	var value [chunk]float32
	var sum [block][chunk]float32
	for j, off := range v.Off {
		widenGeneric(value[:n], e, v.Data[off+skip:])
		for r := range rows {
			axpyGeneric(sum[r][:n], p[r*stride+j], value[:n])
		}
	}
	for r := range rows {
		rescaleGeneric(o[r*dim:][:n], alpha[r], sum[r][:n])
	}
}

// axpyGeneric is y += a·x.
func axpyGeneric(y []float32, a float32, x []float32) {
	for i, xi := range x[:len(y)] {
		y[i] += a * xi
	}
}

// rescaleGeneric is o = o·alpha + sum; an alpha of 0 does not read o.
func rescaleGeneric(o []float32, alpha float32, sum []float32) {
	if alpha == 0 {
		copy(o, sum)
		return
	}
	for i, x := range sum {
		o[i] = o[i]*alpha + x
	}
}

func softmaxGeneric(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	for r := range rows {
		if softmaxRow(s[r*stride:][:keys], &m[r], &l[r], &alpha[r]) {
			hidden = true
		}
	}
	return hidden
}

func softmaxRow(s []float32, m, l, alpha *float32) (hidden bool) {
	top := *m
	for _, x := range s {
		top = max(top, x) // NaN wins
	}
	base := top
	if math.IsInf(float64(top), -1) {
		base = 0 // exp(−Inf − 0) = 0, where −Inf − −Inf would be NaN
	}
	sum := float32(0)
	for j, x := range s {
		if math.IsInf(float64(x), -1) {
			hidden = true
			s[j] = math.Float32frombits(NegZero)
			continue
		}
		s[j] = float32(math.Exp(float64(x - base)))
		sum += s[j]
	}
	a := float32(0)
	if !math.IsInf(float64(*m), -1) {
		a = max(float32(math.Exp(float64(*m-base))), minAlpha) // NaN wins
	}
	*m, *l, *alpha = top, *l*a+sum, a
	return hidden
}

// minAlpha stands for an α that would underflow: it weighs nothing, but keeps a
// NaN that is in o there.
const minAlpha = 0x1p-126

func scaleScoresGeneric(s []float32, stride, rows int, x []float32) {
	for r := range rows {
		row := s[r*stride:][:len(x)]
		for j, xj := range x {
			row[j] *= xj
		}
	}
}

func scaleWeightsGeneric(p []float32, stride, rows int, x []float32, unit float32) {
	for r := range rows {
		row := p[r*stride:][:len(x)]
		for j, xj := range x {
			if math.Float32bits(row[j]) == NegZero {
				continue
			}
			if row[j] *= xj * unit; row[j] == 0 {
				row[j] = 0 // not −0
			}
		}
	}
}

func divideGeneric(dst, a []float32, l float32) (finite bool) {
	top := uint32(0) // of the quotients' bits without their signs
	for i, x := range a {
		dst[i] = x / l
		top = max(top, math.Float32bits(dst[i])<<1)
	}
	return top < 0xff<<24
}

// averageGeneric does the elements from one on.
func averageGeneric(dst []float32, weight []float64, o [][]float32, l float64, from int) {
	for i := from; i < len(dst); i++ {
		sum := 0.0
		for b, w := range weight {
			sum += w * float64(o[b][i])
		}
		dst[i] = float32(sum / l)
	}
}
