package simd

import "testing"

// TestScoresInTheOtherHalves: scores of 16-bit types have kernels for processors that
// do 512 bits in halves and for those that do them at once. Both run on either, so
// the ones that this processor does not choose are held to the same laws.
func TestScoresInTheOtherHalves(t *testing.T) {
	requireLevel(t, AVX512)
	inHalves = !inHalves
	t.Cleanup(func() { inHalves = !inHalves })
	t.Run("scores", TestScoresAtEveryLevel)
	t.Run("rows", TestRowsAreIndependentAtEveryLevel)
	t.Run("special", TestSpecialElementsAtEveryLevel)
}
