package main

import (
	op "github.com/mmcloughlin/avo/operand"
)

func nanFile(g *gen) {
	g.nanE4M3()
}

// nanE4M3 looks for E4M3's NaN codes, 0x7f and 0xff, for the E4M3 kernels, which
// would read them as ±480: with x the low 7 bits of every byte against 0x7f, the
// least x is 0 exactly if there is one. The rest of a row below a vector is read
// in steps of 8 bytes, the last of them reaching back.
func (g *gen) nanE4M3() {
	g.TEXT("nanE4M3"+g.suffix, "func(data *byte, off *int, keys, bytes int) bool",
		"reports whether a row of at least 8 bytes holds an E4M3 NaN.")
	size := 4 * g.lanes
	low := g.broadcast(0x7f7f7f7f)
	least, leastWord := g.vec(), g.XMM()
	g.VMOVAPS(low, least)
	g.VMOVAPS(low.AsX(), leastWord)
	off, data, keys, bytes := g.param("off"), g.param("data"), g.param("keys"), g.param("bytes")
	lastVector, lastWord, p, at := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(op.Mem{Base: bytes, Disp: -size}, lastVector)
	g.LEAQ(op.Mem{Base: bytes, Disp: -8}, lastWord)
	m := op.Mem{Base: p, Index: at, Scale: 1}

	g.Label("key")
	g.MOVQ(op.Mem{Base: off}, p)
	g.ADDQ(imm(8), off)
	g.ADDQ(data, p)
	g.XORQ(at, at)
	g.Label("vector")
	g.CMPQ(at, lastVector)
	g.JG(op.LabelRef("word"))
	x := g.vec()
	if g.lanes == 16 {
		g.VMOVDQU32(m, x)
		g.VPANDND(low, x, x)
	} else {
		g.VMOVDQU(m, x)
		g.VPANDN(low, x, x)
	}
	g.VPMINUB(x, least, least)
	g.ADDQ(imm(size), at)
	g.JMP(op.LabelRef("vector"))
	g.Label("word")
	g.CMPQ(at, bytes)
	g.JGE(op.LabelRef("next"))
	g.CMPQ(at, lastWord)
	g.CMOVQGT(lastWord, at)
	w := g.XMM()
	g.VMOVQ(m, w)
	g.VPANDN(low.AsX(), w, w)
	g.VPMINUB(w, leastWord, leastWord)
	g.ADDQ(imm(8), at)
	g.JMP(op.LabelRef("word"))
	g.Label("next")
	g.DECQ(keys)
	g.JNZ(op.LabelRef("key"))
	y := least.AsY()
	if g.lanes == 16 {
		upper := g.YMM()
		g.VEXTRACTI64X4(op.U8(1), least, upper)
		g.VPMINUB(upper, y, y)
	}
	upper, bits, found := g.XMM(), g.GP32(), g.GP8()
	g.VEXTRACTI128(op.U8(1), y, upper)
	g.VPMINUB(upper, leastWord, leastWord)
	g.VPMINUB(least.AsX(), leastWord, leastWord)
	none := g.XMM()
	g.VPXOR(none, none, none)
	g.VPCMPEQB(none, leastWord, leastWord)
	g.VPMOVMSKB(leastWord, bits)
	g.TESTL(bits, bits)
	g.SETNE(found)
	g.VZEROUPPER()
	g.Store(found, g.ReturnIndex(0))
	g.RET()
}
