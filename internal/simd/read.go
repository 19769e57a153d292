package simd

// ReadSum reads data once, as fast as this level can, and returns a sum that
// depends on every word, so that the reading is not optimised away. It is the
// ceiling that kernels are held against: of the variants of a bare streaming
// read, with and without software prefetch, the fastest found (docs/calibration.md).
func ReadSum(data []byte) uint32 { return readSum(data) }

// readSumGeneric is ReadSum in plain Go.
func readSumGeneric(data []byte) uint32 {
	sum := uint32(0)
	for len(data) >= 4 {
		sum ^= uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		data = data[4:]
	}
	for i, x := range data {
		sum ^= uint32(x) << (8 * i)
	}
	return sum
}
