package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Neither avo nor Go's assembler knows VDPBF16PS. VPDPWSSD, which no kernel here uses,
// stands for it until registers are assigned: it has the same operands, reads and writes
// the same of them, and differs in two bits of its encoding. Then the bytes are written.
const standIn = "VPDPWSSD"

// dotBroadcast is acc += x · the pair of bfloat16 at m, in each lane.
func (g *gen) dotBroadcast(m op.Mem, x, acc reg.VecVirtual) { g.VPDPWSSD_BCST(m, x, acc) }

// dot is acc += x·y of pairs of bfloat16, in each lane; y may be in memory.
func (g *gen) dot(y op.Op, x, acc reg.VecVirtual) { g.VPDPWSSD(y, x, acc) }

// writeDots puts VDPBF16PS where its stand-in is.
func writeDots(file *ir.File) error {
	for _, f := range file.Functions() {
		var nodes []ir.Node
		for _, n := range f.Nodes {
			i, ok := n.(*ir.Instruction)
			if !ok || i.Opcode != standIn {
				nodes = append(nodes, n)
				continue
			}
			code, err := encodeDot(i)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			nodes = append(nodes, inBytes(code, i.Operands))
		}
		f.Nodes = nodes
	}
	return nil
}

// inBytes is VDPBF16PS written byte by byte.
func inBytes(code []byte, operands []op.Op) *ir.Instruction {
	bytes, names := make([]string, len(code)), make([]string, len(operands))
	for i, b := range code {
		bytes[i] = fmt.Sprintf("BYTE $0x%02x", b)
	}
	for i, o := range operands {
		names[i] = o.Asm()
	}
	return &ir.Instruction{Opcode: strings.Join(bytes, "; ") + " // VDPBF16PS " + strings.Join(names, ", ")}
}

// encodeDot encodes VDPBF16PS: EVEX.F3.0F38.W0 52 /r.
func encodeDot(i *ir.Instruction) ([]byte, error) {
	if len(i.Operands) != 3 {
		return nil, fmt.Errorf("%s of %d operands", standIn, len(i.Operands))
	}
	x, acc, length := number(i.Operands[1]), number(i.Operands[2]), byte(1) // of 256 bits
	if op.IsZMM(i.Operands[2]) {
		length = 2
	}
	const opcode, f3, map0F38, broadcast = 0x52, 2, 2, 1 << 4
	// Bits of registers' numbers are inverted in the prefix.
	p0 := map0F38 | (^byte(acc)>>3&1)<<7 | (^byte(acc)>>4&1)<<4
	p1 := (^byte(x)&15)<<3 | 4 | f3
	p2 := length<<5 | (^byte(x)>>4&1)<<3
	switch m := i.Operands[0].(type) {
	case op.Mem:
		if m.Symbol.Name != "" || m.Base == nil {
			return nil, fmt.Errorf("%s with the operand %s", standIn, m.Asm())
		}
		p0 |= 1<<6 | (^byte(number(m.Base))>>3&1)<<5
		if m.Index != nil {
			p0 &^= byte(number(m.Index)) >> 3 & 1 << 6
		}
		unit := 32 * int(length)
		if len(i.Suffixes) > 0 {
			p2 |= broadcast
			unit = 4
		}
		return append([]byte{0x62, p0, p1, p2, opcode}, address(byte(acc), m, unit)...), nil
	case reg.Physical:
		y := number(m)
		p0 |= (^byte(y)>>4&1)<<6 | (^byte(y)>>3&1)<<5
		return []byte{0x62, p0, p1, p2, opcode, 0xc0 | byte(acc)&7<<3 | byte(y)&7}, nil
	}
	return nil, fmt.Errorf("%s with the operand %s", standIn, i.Operands[0].Asm())
}

// number is what a register is called in an encoding.
func number(o op.Op) uint16 { return uint16(o.(reg.Physical).PhysicalIndex()) }

// address encodes memory, of which a displacement counts in units where it fits a byte so.
func address(register byte, m op.Mem, unit int) []byte {
	base := byte(number(m.Base))
	modRM := register&7<<3 | base&7
	var sib []byte
	switch {
	case m.Index != nil:
		modRM = register&7<<3 | 4
		sib = []byte{log2(int(m.Scale))<<6 | byte(number(m.Index))&7<<3 | base&7}
	case base&7 == 4:
		sib = []byte{0x24}
	}
	switch short := m.Disp / unit; {
	case m.Disp == 0 && base&7 != 5:
		return append([]byte{modRM}, sib...)
	case m.Disp%unit == 0 && short == int(int8(short)):
		return append(append([]byte{0x40 | modRM}, sib...), byte(short))
	}
	d := uint32(m.Disp)
	return append(append([]byte{0x80 | modRM}, sib...), byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
}
