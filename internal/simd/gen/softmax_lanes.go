package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How softmax masks lanes: opmasks at AVX-512, vectors of sign bits at AVX2.

// firstLanes masks the first n lanes.
func (g softmax) firstLanes(n reg.GPVirtual) reg.Register {
	if g.lanes == 16 {
		mask, bits := g.K(), g.GP32()
		g.MOVL(op.U32(0xffffffff), bits)
		g.BZHIL(n.As32(), bits, bits)
		g.KMOVW(bits, mask)
		return mask
	}
	words := make([]uint32, 16)
	for i := range 8 {
		words[i] = 0xffffffff
	}
	base, end, mask := g.GP64(), g.GP64(), g.vec()
	g.LEAQ(g.table("firstLanes", words...), base)
	g.MOVQ(n, end)
	g.NEGQ(end)
	g.VMOVDQU(op.Mem{Base: base, Index: end, Scale: 4, Disp: 32}, mask)
	return mask
}

// stripes parts a row's keys: all stripes but the last are whole, and the last one's
// keys, at least one, are masked in each of its vectors.
func (g *softmax) stripes() {
	keys := g.param("keys")
	rest, whole := g.GP64(), g.GP64()
	g.LEAQ(op.Mem{Base: keys, Disp: -1}, whole)
	g.SHRQ(op.U8(log2(stripeKeys)), whole)
	g.whole = g.AllocLocal(8)
	g.MOVQ(whole, g.whole)
	g.SHLQ(op.U8(log2(stripeKeys)), whole)
	g.MOVQ(keys, rest)
	g.SUBQ(whole, rest)
	g.live = g.liveLanes(rest)
}

// liveLanes masks the keys in each vector of a stripe.
func (g softmax) liveLanes(keys reg.GPVirtual) []op.Op {
	live := make([]op.Op, stripeKeys/g.lanes)
	lo, hi := g.GP64(), g.GP64()
	g.XORQ(lo, lo)
	g.MOVQ(imm(g.lanes), hi)
	for i := range live {
		// n = keys − i·lanes, held between 0 and lanes
		n := g.GP64()
		g.LEAQ(op.Mem{Base: keys, Disp: -i * g.lanes}, n)
		g.CMPQ(n, lo)
		g.CMOVQLT(lo, n)
		g.CMPQ(n, hi)
		g.CMOVQGT(hi, n)
		live[i] = g.firstLanes(n)
		if g.lanes == 8 { // too many for the registers
			m := g.AllocLocal(32)
			g.VMOVDQU(live[i], m)
			live[i] = m
		}
	}
	return live
}

// inRegister is a mask in a register.
func (g softmax) inRegister(mask op.Op) reg.Register {
	if r, ok := mask.(reg.Register); ok {
		return r
	}
	r := g.vec()
	g.VMOVDQU(mask, r)
	return r
}

// loadScores loads vector i of the last stripe, −Inf where there is no key.
func (g softmax) loadScores(i int, s reg.GPVirtual, x reg.VecVirtual) {
	m := op.Mem{Base: s, Disp: 4 * g.lanes * i}
	live := g.inRegister(g.live[i])
	if g.lanes == 16 {
		g.VMOVAPS(g.negInf, x)
		g.VMOVUPS(m, live, x)
		return
	}
	g.VMASKMOVPS(m, live, x)
	g.VBLENDVPS(live, x, g.negInf, x)
}

// storeWeights is loadScores' counterpart.
func (g softmax) storeWeights(i int, x reg.VecVirtual, s reg.GPVirtual) {
	g.storeLanes(x, g.inRegister(g.live[i]), op.Mem{Base: s, Disp: 4 * g.lanes * i})
}

func (g softmax) storeLanes(x reg.VecVirtual, lanes reg.Register, m op.Mem) {
	if g.lanes == 16 {
		g.VMOVUPS(x, lanes, m)
		return
	}
	g.VMASKMOVPS(x, lanes, m)
}

func (g softmax) loadLanes(m op.Mem, lanes reg.Register, x reg.VecVirtual) {
	if g.lanes == 16 {
		g.VMOVUPS_Z(m, lanes, x)
		return
	}
	g.VMASKMOVPS(m, lanes, x)
}

// notNegInf masks the lanes of x that are not −Inf; NaN is not.
func (g softmax) notNegInf(x reg.VecVirtual) reg.Register {
	mask := g.mask()
	g.VCMPPS(op.U8(notEqual), g.negInf, x, mask)
	return mask
}

func (g softmax) mask() reg.Register {
	if g.lanes == 16 {
		return g.K()
	}
	return g.vec()
}

// keepLanes zeroes the lanes of x outside mask.
func (g softmax) keepLanes(x reg.VecVirtual, mask reg.Register) {
	if g.lanes == 16 {
		g.VMOVAPS_Z(x, mask, x)
		return
	}
	g.VANDPS(mask, x, x)
}

// base is what to subtract for a maximum: the maximum, or 0 for −Inf, as
// −Inf − −Inf would be NaN.
func (g softmax) base(top reg.VecVirtual) reg.VecVirtual {
	b := g.vec()
	g.VMOVAPS(top, b)
	g.keepLanes(b, g.notNegInf(top))
	return b
}

// isNegInf masks the −Inf lanes of x, and notes whether a key is among them: those of
// live, or all where it is nil.
func (g softmax) isNegInf(x reg.VecVirtual, live op.Op) reg.Register {
	mask, bits := g.mask(), g.GP32()
	g.VCMPPS(op.U8(equal), g.negInf, x, mask)
	keys := mask
	if live != nil {
		keys = g.mask()
		if g.lanes == 16 {
			g.KANDW(g.inRegister(live), mask, keys)
		} else {
			g.VANDPS(g.inRegister(live), mask, keys)
		}
	}
	if g.lanes == 16 {
		g.KMOVW(keys, bits)
	} else {
		g.VMOVMSKPS(keys, bits)
	}
	g.ORL(bits, g.hidden)
	return mask
}

// markHidden makes the masked weights, which are 0 or NaN, −0.
func (g softmax) markHidden(x reg.VecVirtual, isHidden reg.Register) {
	negZero := g.table("signBits", repeat(1<<31, g.lanes)...)
	if g.lanes == 16 {
		g.VMOVUPS(negZero, isHidden, x)
		return
	}
	g.VBLENDVPS(isHidden, negZero, x, x)
}

func repeat(word uint32, n int) []uint32 {
	words := make([]uint32, n)
	for i := range words {
		words[i] = word
	}
	return words
}

// isNaN masks the lanes of x that are NaN.
func (g softmax) isNaN(x reg.VecVirtual) reg.Register {
	mask := g.mask()
	g.VCMPPS(op.U8(unordered), x, x, mask)
	return mask
}

// orMask adds mask a to mask b.
func (g softmax) orMask(a, b reg.Register) {
	if g.lanes == 16 {
		g.KORW(a, b, b)
		return
	}
	g.VORPS(a, b, b)
}

// ifAny runs f if any lane of a mask is set.
func (g softmax) ifAny(mask reg.Register, f func()) {
	label := fmt.Sprintf("none%d", g.id())
	bits := g.GP32()
	if g.lanes == 16 {
		g.KMOVW(mask, bits)
	} else {
		g.VMOVMSKPS(mask, bits)
	}
	g.TESTL(bits, bits)
	g.JZ(op.LabelRef(label))
	f()
	g.Label(label)
}
