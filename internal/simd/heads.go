package simd

// Heads are KV heads that go side by side through a tile: where what belongs to a head
// begins, from the head before it on. A stretch of keys is taken of each head in turn,
// then the next stretch: in the order of memory, where stretches are what pages hold.
//
// Bits are those of the heads one by one.
type Heads struct {
	N     int // how many
	Pitch int // of rows of keys, or of values, in bytes

	// In elements.
	Scores  int // of rows of scores, or of weights
	Rows    int // of rows of q, or of o
	Alpha   int // of alpha
	Partial int // from o to where sums are put aside between stretches, as large as o

	First, Run int // keys of the first stretch, at most, and of others

	tiles int // not 0: stretches are tiles of one head
}

// tileByTile are the tiles of one head.
var tileByTile = &Heads{N: 1, First: TileKeys, Run: TileKeys, tiles: 1}

// tiles takes a tile of the values after the other, for kernels that take one, and what is
// ahead along with it.
func (f HeadsAccumulateFunc) tiles(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead) {
	for i := 0; i < len(v.Off); i += TileKeys {
		end := min(i+TileKeys, len(v.Off))
		part := ahead.Part(i, end, len(v.Off))
		for r := 0; r < rows; r += len(ones) {
			n, a := min(len(ones), rows-r), ones[:]
			if i == 0 {
				a = alpha[r:]
			}
			f(o[r*dim:], n, dim, p[r*stride+i:], stride, a, Tile{v.Data, v.Off[i:end]}, nil, part)
			part = Ahead{}
		}
	}
}

var ones = [MaxRows]float32{1, 1, 1, 1, 1, 1, 1, 1}

// HeadsScoresFunc is a [ScoresFunc] for heads side by side: k is the first one's.
type HeadsScoresFunc func(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead)

// HeadsAccumulateFunc is an [AccumulateFunc] for heads side by side: v is the first one's.
type HeadsAccumulateFunc func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, heads *Heads, ahead Ahead)

// HeadsScores returns the fastest kernel of the current level for keys of type e, or nil
// where it has none that takes heads together.
func HeadsScores(e Elem) HeadsScoresFunc {
	if !takesHeads(e) {
		return nil
	}
	return scoresFor(e)
}

// HeadsAccumulate is the same for values of type e.
func HeadsAccumulate(e Elem) HeadsAccumulateFunc {
	if !takesHeads(e) {
		return nil
	}
	return accumulateFor(e)
}

// one is f for one head.
func (f HeadsScoresFunc) one() ScoresFunc {
	return func(s []float32, stride int, q []float32, rows, dim int, k Tile, ahead Ahead) {
		f(s, stride, q, rows, dim, k, nil, ahead)
	}
}

func (f HeadsAccumulateFunc) one() AccumulateFunc {
	return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead) {
		f(o, rows, dim, p, stride, alpha, v, nil, ahead)
	}
}

// oneByOne takes the heads one by one.
func (f HeadsScoresFunc) oneByOne(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead) {
	for h := range heads.N {
		k := Tile{k.Data[h*heads.Pitch:], k.Off}
		f(s[h*heads.Scores:], stride, q[h*heads.Rows:], rows, dim, k, nil, ahead)
		ahead = Ahead{}
	}
}

func (f HeadsAccumulateFunc) oneByOne(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, heads *Heads, ahead Ahead) {
	for h := range heads.N {
		v := Tile{v.Data[h*heads.Pitch:], v.Off}
		f(o[h*heads.Rows:], rows, dim, p[h*heads.Scores:], stride, alpha[h*heads.Alpha:], v, nil, ahead)
		ahead = Ahead{}
	}
}

// last is where what belongs to the last head begins.
func (h *Heads) last() Heads {
	if h == nil {
		return Heads{}
	}
	n := h.N - 1
	return Heads{Pitch: n * h.Pitch, Scores: n * h.Scores, Rows: n * h.Rows, Alpha: n * h.Alpha, Partial: h.Partial}
}
