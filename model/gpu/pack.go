package gpu

import (
	"encoding/binary"

	"github.com/flashdec/flashdec/gguf"
)

// packBlocks lays a row's blocks out as kernels/params.cuh has them. What ggml's are is in
// internal/simd's blocks.go and superblocks.go.
func packBlocks(dst []byte, e elem, src []byte, t gguf.Type) {
	l, n := blockLayouts[e], len(src)/t.BlockBytes()
	codes, scales, tops := dst[:n*l.codes], dst[n*l.codes:][:n*l.scales], dst[n*(l.codes+l.scales):][:n*l.tops]
	pack := packers[t]
	for i := range n {
		pack(codes[i*l.codes:][:l.codes], scales[i*l.scales:][:l.scales], tops[i*l.tops:][:l.tops], src[i*t.BlockBytes():][:t.BlockBytes()])
	}
}

// packers lay one block out.
var packers = map[gguf.Type]func(codes, scales, tops, block []byte){
	gguf.Q8_0: packScaleFirst, gguf.Q4_1: packScaleFirst, gguf.Q4_0: packQ4_0, gguf.Q5_0: packQ5_0,
	gguf.Q4_K: packQ4_K, gguf.Q5_K: packQ5_K, gguf.Q6_K: packQ6_K,
}

func packScaleFirst(codes, scales, _, block []byte) {
	copy(codes, block[len(scales):])
	copy(scales, block)
}

// packQ4_0 makes codes − 8 in two's complement of the codes.
func packQ4_0(codes, scales, _, block []byte) {
	copy(scales, block)
	for i, b := range block[2:18] {
		codes[i] = b ^ 0x88
	}
}

// packQ5_0 makes int8 of codes of 5 bits, of which the fifth lie apart.
func packQ5_0(codes, scales, _, block []byte) {
	copy(scales, block)
	fifth := binary.LittleEndian.Uint32(block[2:])
	for i, b := range block[6:22] {
		codes[i] = b&15 | byte(fifth>>i&1)<<4 - 16
		codes[i+16] = b>>4 | byte(fifth>>(i+16)&1)<<4 - 16
	}
}

// packSixBits puts the scales and minima of 8 groups side by side: of the first four the low six bits of bytes j and
// j + 4, of the last four two halves of byte j + 4, with the upper bits of the first eight.
func packSixBits(scales, packed []byte) {
	for j := range 4 {
		scales[2*j], scales[2*j+1] = packed[j]&63, packed[j+4]&63
		scales[8+2*j], scales[9+2*j] = packed[j+8]&15|packed[j]>>6<<4, packed[j+8]>>4|packed[j+4]>>6<<4
	}
}

// packQ4_K takes groups j and j + 1, the low and the high halves of 32 bytes, apart.
func packQ4_K(codes, scales, tops, block []byte) {
	copy(tops, block[:4])
	packSixBits(scales, block[4:16])
	for j := 0; j < 8; j += 2 {
		from, to := block[16+16*j:][:32], codes[16*j:][:32]
		for i := range 16 {
			to[i] = from[i]&15 | from[i+16]<<4
			to[16+i] = from[i]>>4 | from[i+16]&0xf0
		}
	}
}

// packQ5_K makes bytes: bit j of byte i of the fifth bits is element i's of group j.
func packQ5_K(codes, scales, tops, block []byte) {
	copy(tops, block[:4])
	packSixBits(scales, block[4:16])
	fifth := block[16:48]
	for j := 0; j < 8; j += 2 {
		from, to := block[48+16*j:][:32], codes[32*j:][:64]
		for i, b := range from {
			to[i] = b&15 | fifth[i]>>j&1<<4
			to[32+i] = b>>4 | fifth[i]>>(j+1)&1<<4
		}
	}
}

// packQ6_K makes int8 of codes whose low halves and upper two bits lie apart, in four runs of 32 of each half of the
// block: run r has the low (r < 2) or high halves of 32 bytes, and bits 2r and 2r + 1 of 32 others.
func packQ6_K(codes, scales, tops, block []byte) {
	copy(scales, block[192:208])
	copy(tops, block[208:210])
	tops[2], tops[3] = 0, 0
	for n := range 2 {
		low, high, to := block[64*n:][:64], block[128+32*n:][:32], codes[128*n:][:128]
		for i, b := range high {
			for r := range 4 {
				to[32*r+i] = low[i+r%2*32]>>(r/2*4)&15 | b>>(2*r)&3<<4 - 32
			}
		}
	}
}
