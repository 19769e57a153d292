package main

import (
	"fmt"
	"math/bits"
)

// instruction is a word of machine code and what it says, in Arm's notation.
type instruction struct {
	word uint32
	text string
}

func log2(n int) int { return bits.TrailingZeros(uint(n)) }

// The shapes of instructions: name vd.t, vn.t, vm.t …

func three(name, t string, code uint32) func(d, n, m vec) instruction {
	return func(d, n, m vec) instruction {
		return instruction{code | uint32(m)<<16 | uint32(n)<<5 | uint32(d), fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s", name, d, t, n, t, m, t)}
	}
}

// … name vd.t, vn.from, with what may follow …
func two(name, t, from, rest string, code uint32) func(d, n vec) instruction {
	return func(d, n vec) instruction {
		return instruction{code | uint32(n)<<5 | uint32(d), fmt.Sprintf("%s v%d.%s, v%d.%s%s", name, d, t, n, from, rest)}
	}
}

// … name sd, vn.t, over all lanes.
func across(name, t string, code uint32) func(d, n vec) instruction {
	return func(d, n vec) instruction {
		return instruction{code | uint32(n)<<5 | uint32(d), fmt.Sprintf("%s s%d, v%d.%s", name, d, n, t)}
	}
}

// Arithmetic. fmax lets NaN win; fmla is d += n·m, fmls d −= n·m.
var (
	fadd  = three("fadd", "4s", 0x4e20d400)
	fsub  = three("fsub", "4s", 0x4ea0d400)
	fmul  = three("fmul", "4s", 0x6e20dc00)
	fmax  = three("fmax", "4s", 0x4e20f400)
	fmla  = three("fmla", "4s", 0x4e20cc00)
	fmls  = three("fmls", "4s", 0x4ea0cc00)
	faddp = three("faddp", "4s", 0x6e20d400)
	fcmeq = three("fcmeq", "4s", 0x4e20e400)
	fmaxv = across("fmaxv", "4s", 0x6e30f800)

	addS   = three("add", "4s", 0x4ea08400)
	subS   = three("sub", "4s", 0x6ea08400)
	subB   = three("sub", "16b", 0x6e208400)
	cmeqS  = three("cmeq", "4s", 0x6ea08c00)
	cmeqH  = three("cmeq", "8h", 0x6e608c00)
	umaxvS = across("umaxv", "4s", 0x6eb0a800)

	and    = three("and", "16b", 0x4e201c00)
	bic    = three("bic", "16b", 0x4e601c00) // n without the bits of m
	orr    = three("orr", "16b", 0x4ea01c00)
	eor    = three("eor", "16b", 0x6e201c00)
	bit    = three("bit", "16b", 0x6ea01c00) // n where m is set
	zip1   = three("zip1", "16b", 0x4e003800)
	frintn = two("frintn", "4s", "4s", "", 0x4e218800)
	fcvtns = two("fcvtns", "4s", "4s", "", 0x4e21a800)
	scvtf  = two("scvtf", "4s", "4s", "", 0x4e21d800)

	shlS23  = two("shl", "4s", "4s", ", #23", 0x4f375400)
	sshrS1  = two("sshr", "4s", "4s", ", #1", 0x4f3f0400)
	shlH7   = two("shl", "8h", "8h", ", #7", 0x4f175400)
	shlB4   = two("shl", "8b", "8b", ", #4", 0x0f0c5400)
	sshrB4  = two("sshr", "8b", "8b", ", #4", 0x0f0c0400)
	ushrB4  = two("ushr", "16b", "16b", ", #4", 0x6f0c0400)
	halfOfB = two("mov", "8b", "8b", "", 0x0ea01c00) // as three("orr"), n twice
)

// widening is an instruction on the lower half of a vector and its twin on the upper.
type widening struct{ low, high func(d, n vec) instruction }

var (
	sxtlB   = widening{two("sxtl", "8h", "8b", "", 0x0f08a400), two("sxtl2", "8h", "16b", "", 0x4f08a400)}
	sxtlH   = widening{two("sxtl", "4s", "4h", "", 0x0f10a400), two("sxtl2", "4s", "8h", "", 0x4f10a400)}
	shllB8  = widening{two("shll", "8h", "8b", ", #8", 0x2e213800), two("shll2", "8h", "16b", ", #8", 0x6e213800)}
	shllH16 = widening{two("shll", "4s", "4h", ", #16", 0x2e613800), two("shll2", "4s", "8h", ", #16", 0x6e613800)}
	fcvtl   = widening{two("fcvtl", "4s", "4h", "", 0x0e217800), two("fcvtl2", "4s", "8h", "", 0x4e217800)}
)

// mov copies a vector; lowest2 and lowest1 copy as many float32 and zero the rest.
func mov(d, n vec) instruction {
	return instruction{orr(d, n, n).word, fmt.Sprintf("mov v%d.16b, v%d.16b", d, n)}
}

func lowest2(d, n vec) instruction {
	i := halfOfB(d, n)
	i.word |= uint32(n) << 16
	return i
}

func lowest1(d, n vec) instruction {
	return instruction{0x1e204000 | uint32(n)<<5 | uint32(d), fmt.Sprintf("fmov s%d, s%d", d, n)}
}

func zero(d vec) instruction {
	return instruction{0x6f00e400 | uint32(d), fmt.Sprintf("movi v%d.2d, #0x0", d)}
}

// dupW fills d with the low 32 bits of n, dupS with the lowest lane of n.
func dupW(d vec, n reg) instruction {
	return instruction{0x4e040c00 | uint32(n)<<5 | uint32(d), fmt.Sprintf("dup v%d.4s, w%d", d, int(n))}
}

func dupS(d, n vec) instruction {
	return instruction{0x4e040400 | uint32(n)<<5 | uint32(d), fmt.Sprintf("dup v%d.4s, v%d.s[0]", d, n)}
}

// fmovW moves the lowest lane of n to a general register.
func fmovW(d reg, n vec) instruction {
	return instruction{0x1e260000 | uint32(n)<<5 | uint32(d), fmt.Sprintf("fmov w%d, s%d", int(d), n)}
}

// fmovX and fmovUpper move the lower and the upper half of n.
func fmovX(d reg, n vec) instruction {
	return instruction{0x9e660000 | uint32(n)<<5 | uint32(d), fmt.Sprintf("fmov x%d, d%d", int(d), n)}
}

func fmovUpper(d reg, n vec) instruction {
	return instruction{0x9eae0000 | uint32(n)<<5 | uint32(d), fmt.Sprintf("fmov x%d, v%d.d[1]", int(d), n)}
}

// sizes are the memory accesses of 1 to 16 bytes, in the order of their logarithms:
// a vector's name at that size and the codes of a load.
var sizes = [5]struct {
	name         string
	offset, post uint32
}{
	{"b", 0x3d400000, 0x3c400400},
	{"h", 0x7d400000, 0x7c400400},
	{"s", 0xbd400000, 0xbc400400},
	{"d", 0xfd400000, 0xfc400400},
	{"q", 0x3dc00000, 0x3cc00400},
}

// isStore turns the code of a load into that of a store.
const isStore = 0x00400000

// ldr loads the lowest bytes of d, 1, 2, 4, 8 or 16, and zeroes the rest; str stores them.
func ldr(d vec, bytes int, base reg, offset int) instruction {
	return access("ldr", 0, d, bytes, base, offset)
}

func str(d vec, bytes int, base reg, offset int) instruction {
	return access("str", isStore, d, bytes, base, offset)
}

func access(name string, flip uint32, d vec, bytes int, base reg, offset int) instruction {
	s := sizes[log2(bytes)]
	if offset%bytes != 0 || offset/bytes >= 1<<12 || offset < 0 {
		panic(fmt.Sprintf("%s of %d bytes at offset %d", name, bytes, offset))
	}
	where := fmt.Sprintf("[x%d]", int(base))
	if offset != 0 {
		where = fmt.Sprintf("[x%d,#%d]", int(base), offset)
	}
	word := s.offset ^ flip | uint32(offset/bytes)<<10 | uint32(base)<<5 | uint32(d)
	return instruction{word, fmt.Sprintf("%s %s%d, %s", name, s.name, d, where)}
}

// ldur is ldr at any offset below 256.
func ldur(d vec, bytes int, base reg, offset int) instruction {
	if offset < 0 || offset >= 1<<8 {
		panic(fmt.Sprintf("ldur at offset %d", offset))
	}
	s := sizes[log2(bytes)]
	where := fmt.Sprintf("[x%d]", int(base))
	if offset != 0 {
		where = fmt.Sprintf("[x%d,#%d]", int(base), offset)
	}
	word := s.post&^0x400 | uint32(offset)<<12 | uint32(base)<<5 | uint32(d)
	return instruction{word, fmt.Sprintf("ldur %s%d, %s", s.name, d, where)}
}

// ldrOn and strOn access memory at base and move base behind it.
func ldrOn(d vec, bytes int, base reg) instruction { return accessOn("ldr", 0, d, bytes, base) }

func strOn(d vec, bytes int, base reg) instruction { return accessOn("str", isStore, d, bytes, base) }

func accessOn(name string, flip uint32, d vec, bytes int, base reg) instruction {
	s := sizes[log2(bytes)]
	word := s.post ^ flip | uint32(bytes)<<12 | uint32(base)<<5 | uint32(d)
	return instruction{word, fmt.Sprintf("%s %s%d, [x%d],#%d", name, s.name, d, int(base), bytes)}
}

// ld1r fills d with copies of 4 or 8 bytes of memory; ld1rOn moves base behind them.
func ld1r(d vec, bytes int, base reg) instruction {
	code, t := lanesOf(bytes)
	return instruction{0x4d40c000 | code | uint32(base)<<5 | uint32(d), fmt.Sprintf("ld1r {v%d.%s}, [x%d]", d, t, int(base))}
}

func ld1rOn(d vec, bytes int, base reg) instruction {
	code, t := lanesOf(bytes)
	return instruction{0x4ddfc000 | code | uint32(base)<<5 | uint32(d), fmt.Sprintf("ld1r {v%d.%s}, [x%d],#%d", d, t, int(base), bytes)}
}

func lanesOf(bytes int) (code uint32, t string) {
	if bytes == 8 {
		return 0xc00, "2d"
	}
	return 0x800, "4s"
}
