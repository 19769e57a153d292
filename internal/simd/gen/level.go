package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// tileKeys is simd.TileKeys.
const tileKeys = 64

// level is an instruction set: how many float32 a vector holds, and how a group's
// rows are blocked over its registers.
type level struct {
	name   string
	suffix string // of function names
	lanes  int
	// types are the element types that there are kernels for, all if there are none.
	types []string
	// tables is whether those are looked up in tables, 64 elements at a time, of which
	// rows are multiples.
	tables bool
	// blocks are the numbers of rows that there are kernels for.
	blocks []int
	// quads is whether rows are scored with four keys at a time, not two.
	quads bool
	// paired is whether elements are pairs of bfloat16, which VDPBF16PS multiplies: a row has half
	// as many, 32 bits each, a multiple of the lanes.
	paired bool
	// evenly is whether kernels fetch what is ahead line by line, where they can.
	evenly bool
	// scoreWidths[R] are the numbers of vectors of a key that are scored together
	// for R rows, largest first.
	scoreWidths map[int][]int
	// widths[R] are the numbers of vectors of a row accumulated in one pass for R
	// rows, largest first; one-vector passes finish any rest.
	widths map[int][]int
}

// 32 registers: 16 accumulators hide the latency of multiply-add and leave room
// for the operands. 16 registers: 8 accumulators.
var (
	avx512 = level{
		name: "avx512", suffix: "AVX512", lanes: 16,
		blocks: []int{1, 2, 3, 4, 5, 6, 7, 8},
		scoreWidths: map[int][]int{
			1: {8, 4, 1}, 2: {8, 4, 1}, 3: {8, 4, 1}, 4: {8, 4, 1}, 5: {4, 1}, 6: {4, 1}, 7: {4, 1}, 8: {4, 1},
		},
		widths: map[int][]int{1: {8, 4}, 2: {8, 4}, 3: {8, 4}, 4: {4}, 5: {4}, 6: {4, 2}, 7: {2}, 8: {2}},
	}
	avx2 = level{
		name: "avx2", suffix: "AVX2", lanes: 8,
		blocks: []int{1, 2, 4}, scoreWidths: map[int][]int{1: {8, 1}, 2: {8, 1}, 4: {2, 1}},
		widths: map[int][]int{1: {8, 4}, 2: {4}, 4: {2}},
	}
	// wide is for processors that do 512 bits at once: little computes there while memory idles.
	wide = level{
		name: "wide", suffix: "Wide", lanes: 16, types: []string{"F32", "F16", "BF16", "E5M2"}, evenly: true,
		blocks: []int{1, 2, 3, 4, 5, 6, 7, 8},
		scoreWidths: map[int][]int{
			1: {4, 1}, 2: {4, 1}, 3: {4, 1}, 4: {4, 1}, 5: {4, 1}, 6: {4, 1}, 7: {4, 1}, 8: {4, 1},
		},
		widths: avx512.widths,
	}
	// vnni is for integers; and its processors have VPERMI2B, for 8-bit floats.
	vnni = level{
		name: "vnni", suffix: "VNNI", lanes: 16, types: []string{"E4M3", "E5M2"}, tables: true,
		blocks: []int{1, 2, 3, 4}, scoreWidths: map[int][]int{1: {4}, 2: {4}, 3: {4}, 4: {4}},
		widths: map[int][]int{1: {8, 4}, 2: {8, 4}, 3: {4}, 4: {4}},
	}
	// turnwise is for sums of more rows than registers hold, on processors that gain by
	// reading values in order.
	turnwise = level{
		name: "turns", suffix: "Turns", lanes: 16, types: []string{"F32"}, blocks: []int{4, 6, 8},
	}
	// dotwise is for sums of values in bfloat16 by VDPBF16PS, on processors that do it as often
	// as multiply-adds. Widths are in vectors of bfloat16.
	dotwise = level{
		name: "dots", suffix: "Dots", lanes: 16, types: []string{"BF16"}, blocks: []int{3, 4, 5, 6, 7, 8},
		widths: map[int][]int{3: {4, 2, 1}, 4: {2, 1}, 5: {2, 1}, 6: {2, 1}, 7: {1}, 8: {1}},
	}
	// eightSums and eightScores are for 8-bit floats by VDPBF16PS: their sums, and their scores where
	// bfloat16 holds the queries. Widths are in lines of 64 codes.
	eightSums = level{
		name: "eights", suffix: "Eights", lanes: 16, types: []string{"E4M3", "E5M2"}, tables: true,
		blocks: []int{1, 2, 3, 4, 5, 6},
		widths: map[int][]int{1: {2, 1}, 2: {2, 1}, 3: {1}, 4: {1}, 5: {1}, 6: {1}},
	}
	eightScores = level{
		name: "eights", suffix: "Eights", lanes: 16, types: []string{"E4M3", "E5M2"}, tables: true, quads: true,
		blocks: []int{1, 2, 3, 4}, scoreWidths: map[int][]int{1: {2, 1}, 2: {1}, 3: {1}, 4: {1}},
	}
	// pairwise is for scores of keys in bfloat16 by VDPBF16PS, on the same processors, where
	// bfloat16 holds the queries, too.
	pairwise = level{
		name: "pairs", suffix: "Pairs", lanes: 8, types: []string{"BF16"}, blocks: []int{1, 2, 3, 4}, quads: true, paired: true,
		scoreWidths: map[int][]int{1: {8, 1}, 2: {4, 1}, 3: {4, 1}, 4: {4, 1}},
	}
	// ordered is the same for rows that one kernel takes, which wait for memory: two keys, one read after the other.
	ordered = level{
		name: "ordered", suffix: "Ordered", lanes: 8, types: []string{"BF16"}, blocks: []int{3, 4}, paired: true,
		scoreWidths: map[int][]int{3: {8, 1}, 4: {8, 1}},
	}
	// splitwise is for scores of several rows and keys of 32 bits on processors that do 512
	// bits in two halves.
	splitwise = level{
		name: "splits", suffix: "Splits", lanes: 8, types: []string{"F32"}, blocks: []int{3, 4},
	}
	// halves is for scores of 16-bit types on processors that do 512 bits in two halves: AVX-512's
	// 32 registers, 256 bits of each.
	halves = level{
		name: "halves", suffix: "Halves", lanes: 8, types: []string{"F16", "BF16"},
		blocks: []int{1, 2, 3, 4}, quads: true,
		scoreWidths: map[int][]int{1: {8, 1}, 2: {4, 1}, 3: {4, 1}, 4: {4, 1}},
	}
)

// elems are the level's element types.
func (l *level) elems() []elem {
	if l.types == nil {
		return elems
	}
	var some []elem
	for _, e := range elems {
		if slices.Contains(l.types, e.name) {
			some = append(some, e)
		}
	}
	return some
}

// gen is the context of one file at one level.
type gen struct {
	assembler
	*level
	consts map[string]op.Mem
	labels int
}

// vec is a new vector register of the level's width.
func (g *gen) vec() reg.VecVirtual {
	if g.lanes == 16 {
		return g.ZMM()
	}
	return g.YMM()
}

func (g *gen) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = g.vec()
	}
	return v
}

// param loads a parameter into a register of its own.
func (g *gen) param(name string) reg.GPVirtual {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// paramMem is a parameter's place in memory.
func (g *gen) paramMem(name string) op.Mem {
	b, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// zero is a register of zeros, made so that avo sees a definition.
func (g *gen) zero() reg.VecVirtual {
	z, x := g.vec(), g.XMM()
	n := g.GP32()
	g.XORL(n, n)
	g.VMOVD(n, x)
	g.VPBROADCASTD(x, z)
	return z
}

// loadPart loads the lower part of v, which clears the rest of it: avo, which would
// take the rest for an older value, is told so.
func (g *gen) loadPart(m op.Mem, part reg.Register, v reg.VecVirtual) {
	load, err := x86.VMOVDQU32(m, part)
	if err != nil {
		panic(err)
	}
	load.Outputs = []op.Op{v}
	g.Instruction(load)
}

// broadcast fills a vector with the 32 bits of a constant.
func (g *gen) broadcast(bits uint32) reg.VecVirtual {
	z, x, n := g.vec(), g.XMM(), g.GP32()
	g.MOVL(op.U32(bits), n)
	g.VMOVD(n, x)
	g.VPBROADCASTD(x, z)
	return z
}

// table is a read-only array of 32-bit words.
func (g *gen) table(name string, words ...uint32) op.Mem {
	name += g.suffix
	if m, ok := g.consts[name]; ok {
		return m
	}
	m := g.StaticGlobal(name)
	g.DataAttributes(rodata)
	for i, w := range words {
		g.AddDatum(4*i, op.U32(w))
	}
	if g.consts == nil {
		g.consts = map[string]op.Mem{}
	}
	g.consts[name] = m
	return m
}

// rows addresses row r of a matrix whose rows lie `by` bytes apart: a is row 0
// and b row 1 (nil for one row), and thrice is 3·by where 8 rows need it. Only a
// and b move along the row.
type rows struct {
	a, b, by, thrice reg.GPVirtual
}

func (g *gen) rows(n int, base reg.GPVirtual, elems reg.GPVirtual) rows {
	m := rows{a: g.GP64(), by: g.GP64()}
	g.MOVQ(base, m.a)
	g.MOVQ(elems, m.by)
	g.SHLQ(op.U8(2), m.by)
	if n > 2 {
		m.b = g.GP64()
		g.LEAQ(op.Mem{Base: m.a, Index: m.by, Scale: 1}, m.b)
	}
	if n > 4 {
		m.thrice = g.GP64()
		g.LEAQ(op.Mem{Base: m.by, Index: m.by, Scale: 2}, m.thrice)
	}
	return m
}

func (m rows) at(r int) op.Mem {
	switch r {
	case 0:
		return op.Mem{Base: m.a}
	case 1:
		return op.Mem{Base: m.a, Index: m.by, Scale: 1}
	case 2:
		return op.Mem{Base: m.a, Index: m.by, Scale: 2}
	case 3:
		return op.Mem{Base: m.b, Index: m.by, Scale: 2}
	case 4:
		return op.Mem{Base: m.a, Index: m.by, Scale: 4}
	case 5:
		return op.Mem{Base: m.b, Index: m.by, Scale: 4}
	case 6:
		return op.Mem{Base: m.a, Index: m.thrice, Scale: 2}
	case 7:
		return op.Mem{Base: m.b, Index: m.thrice, Scale: 2}
	}
	panic(fmt.Sprintf("row %d", r))
}

// advance moves every row n bytes on.
func (g *gen) advance(m rows, n int) {
	g.ADDQ(imm(n), m.a)
	if m.b != nil {
		g.ADDQ(imm(n), m.b)
	}
}

// eachWidth takes as many elements as left counts in steps of w vectors of lanes elements, of
// each width in turn while so many are left.
func (g *gen) eachWidth(widths []int, lanes int, left op.Op, step func(w int)) {
	for _, w := range widths {
		label := fmt.Sprintf("width%d", w)
		g.Label(label)
		g.CMPQ(left, imm(w*lanes))
		g.JLT(op.LabelRef(label + "done"))
		step(w)
		g.SUBQ(imm(w*lanes), left)
		g.JMP(op.LabelRef(label))
		g.Label(label + "done")
	}
}

// TEXT begins a function, with its signature and doc comment.
func (g *gen) TEXT(name, signature, doc string) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(signature)
	g.Pragma("noescape")
	g.Doc(name + " " + doc)
}

// id is a number for labels.
func (g *gen) id() int {
	g.labels++
	return g.labels
}
