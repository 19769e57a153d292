//go:build unix

package simd

import "testing"

// TestOtherHalves: processors that do 512 bits in halves take other kernels for some
// types than those that do them at once. Both run on either, so the ones that this
// processor does not choose are held to the same laws.
func TestOtherHalves(t *testing.T) {
	requireLevel(t, AVX512)
	inHalves = !inHalves
	t.Cleanup(func() { inHalves = !inHalves })
	t.Run("scores", TestScoresAtEveryLevel)
	t.Run("sums", TestAccumulateAtEveryLevel)
	t.Run("rows", TestRowsAreIndependentAtEveryLevel)
	t.Run("special", TestSpecialElementsAtEveryLevel)
}
