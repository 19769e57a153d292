package simd

import "golang.org/x/sys/cpu"

// hasDots says that VDPBF16PS, 32 multiply-adds, is as fast as a multiply-add of 16: not so
// on Intel's processors, which take twice as long for it.
var hasDots = hasVNNI && cpu.X86.HasAVX512BF16 && isFamily25()

// pairScoresFor is [PairScores] for heads side by side.
func pairScoresFor(e Elem) HeadsScoresFunc {
	kernels := &scoresPairs[e]
	switch {
	case !useDots:
		return nil
	case e == E4M3 || e == E5M2:
		kernels = &scoresEights[e]
	case e != BF16:
		return nil
	}
	f := scoresBy(e, kernels, &sizesHalves, limits{})
	one := scoresBy(e, over(&scoresOrdered[e], kernels), &sizesHalves, limits{})
	return func(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead) {
		dim = PairsLen(e, dim)
		switch {
		case rows <= pairRows:
			one(s, stride, q, rows, dim, k, heads, ahead)
		case heads != nil:
			f(s, stride, q, rows, dim, k, heads, ahead)
		default:
			f.sharing(s, stride, q, rows, dim, k, ahead)
		}
	}
}

// pairRows is the most rows of a kernel for pairs.
const pairRows = 4

// sharing takes a tile after the other, each by several kernels, of which every one fetches
// its share of what is ahead: one that fetched all of it would compute faster than memory
// can follow, and the next one leave it idle.
func (f HeadsScoresFunc) sharing(s []float32, stride int, q []float32, rows, dim int, k Tile, ahead Ahead) {
	for i := 0; i < len(k.Off); i += TileKeys {
		end := min(i+TileKeys, len(k.Off))
		tile, next := Tile{k.Data, k.Off[i:end]}, ahead.Part(i, end, len(k.Off))
		for r := 0; r < rows; {
			n := sizesHalves[min(rows-r, maxBlock)]
			f(s[r*stride+i:], stride, q[r*dim:], n, dim, tile, nil, next.Part(r, r+n, rows))
			r += n
		}
	}
}

// accumulateRoundedFor is [AccumulateRounded] for heads side by side.
func accumulateRoundedFor(e Elem) HeadsAccumulateFunc {
	switch {
	case !useDots:
		return nil
	case e == E4M3 || e == E5M2:
		return accumulateOfWhole(RoundedRow(e), accumulateBy(e, &accumulateEights[e], &sizesEights, limits{}), accumulateFor(e))
	case e != BF16:
		return nil
	}
	return accumulateOfWhole(RoundedRow(e), accumulateBy(e, over(&accumulateDots[e], &accumulateAVX512[e]), &sizesAVX512, limits{}), accumulateFor(e))
}

// sizesEights: registers hold the sums of six rows; of seven, and of eight, four go first.
var sizesEights = sizes{0, 1, 2, 3, 4, 5, 6, 4, 4}

func roundWeights(p []float32, stride, rows, keys int, l, alpha []float32) {
	if rows == 0 || keys == 0 || !useDots {
		roundWeightsGeneric(p, stride, rows, keys, l, alpha)
		return
	}
	_, _, _ = p[(rows-1)*stride+keys-1], l[rows-1], alpha[rows-1]
	roundWeightsDots(&p[0], stride, rows, keys, &l[0], &alpha[0])
}
