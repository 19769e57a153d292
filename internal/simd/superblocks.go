package simd

// superElements is how many elements the largest blocks have.
const superElements = 256

// In the formulas below a product is rounded before it is added, on every machine: the conversions keep
// compilers from fusing the two.

// sixBits is the scale and the minimum of group j of 8 of a Q4_K or Q5_K block, packed into 12 bytes:
// those of the first four groups have their low six bits in bytes j and j+4; those of the last four have
// four bits in a half of byte j+4 and two in the upper bits of the first eight bytes.
func sixBits(packed []byte, j int) (scale, minimum float32) {
	if j < 4 {
		return float32(packed[j] & 63), float32(packed[j+4] & 63)
	}
	return float32(packed[j+4]&15 | packed[j-4]>>6<<4), float32(packed[j+4]>>4 | packed[j]>>6<<4)
}

// dequantiseQ4_K reads d and e F16, 12 bytes of scales, then 128 bytes: 32 of them hold two groups of 32
// elements, the low halves one, the high halves the next.
func dequantiseQ4_K(dst []float32, src []byte) {
	d, e, packed, q := widenAt(F16, src, 0), widenAt(F16, src, 1), src[4:16], src[16:144]
	for j := 0; j < 8; j += 2 {
		s, m := sixBits(packed, j)
		s2, m2 := sixBits(packed, j+1)
		s, m, s2, m2 = d*s, e*m, d*s2, e*m2
		for i, b := range q[j*16:][:32] {
			dst[j*32+i] = float32(s*float32(b&15)) - m
			dst[j*32+32+i] = float32(s2*float32(b>>4)) - m2
		}
	}
}

// dequantiseQ5_K reads as Q4_K, with 32 bytes of fifth bits before the 128: bit j of byte i is for
// element i of group j.
func dequantiseQ5_K(dst []float32, src []byte) {
	d, e, packed, fifth, q := widenAt(F16, src, 0), widenAt(F16, src, 1), src[4:16], src[16:48], src[48:176]
	for j := 0; j < 8; j += 2 {
		s, m := sixBits(packed, j)
		s2, m2 := sixBits(packed, j+1)
		s, m, s2, m2 = d*s, e*m, d*s2, e*m2
		for i, b := range q[j*16:][:32] {
			dst[j*32+i] = float32(s*float32(b&15|fifth[i]>>j&1<<4)) - m
			dst[j*32+32+i] = float32(s2*float32(b>>4|fifth[i]>>(j+1)&1<<4)) - m2
		}
	}
}

// dequantiseQ6_K reads 128 bytes of low halves, 64 of upper two bits, 16 int8 scales, then d F16. Each
// half of the block is four runs of 32 elements: runs 0 and 1 have the low halves of 64 bytes, 2 and 3
// their high halves; run r has bits 2r and 2r+1 of 32 bytes.
func dequantiseQ6_K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], widenAt(F16, src, 104)
	for n := range 2 {
		l, h, s, y := low[64*n:][:64], high[32*n:][:32], scales[8*n:][:8], dst[128*n:][:128]
		for i, b := range h {
			for r := range 4 {
				q := int(l[i+r%2*32]>>(r/2*4)&15) | int(b>>(2*r)&3)<<4
				y[32*r+i] = float32(d*float32(int8(s[2*r+i/16]))) * float32(q-32)
			}
		}
	}
}
