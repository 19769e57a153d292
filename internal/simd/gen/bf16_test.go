package main

import (
	"fmt"
	"testing"

	"github.com/mmcloughlin/avo/ir"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// TestEncodeDot: VDPBF16PS is written as GNU's assembler writes it.
func TestEncodeDot(t *testing.T) {
	for _, c := range []struct {
		first  op.Op
		x, acc reg.Register
		want   string
	}{
		{op.Mem{Base: reg.RDX}, reg.Z26, reg.Z0, "62 f2 2e 50 52 02"},
		{op.Mem{Base: reg.RDX, Disp: 128}, reg.Z5, reg.Z8, "62 72 56 58 52 42 20"},
		{op.Mem{Base: reg.R12, Disp: 512}, reg.Z15, reg.Z31, "62 42 06 58 52 bc 24 00 02 00 00"},
		{op.Mem{Base: reg.R13, Disp: 896}, reg.Z16, reg.Z16, "62 c2 7e 50 52 85 80 03 00 00"},
		{op.Mem{Base: reg.RBP}, reg.Z1, reg.Z2, "62 f2 76 58 52 55 00"},
		{op.Mem{Base: reg.RSP, Disp: -4}, reg.Z1, reg.Z2, "62 f2 76 58 52 54 24 ff"},
		{op.Mem{Base: reg.R8, Disp: 6}, reg.Z1, reg.Z2, "62 d2 76 58 52 90 06 00 00 00"},
		{reg.Z3, reg.Z20, reg.Z9, "62 72 5e 40 52 cb"},
		{reg.Y30, reg.Y12, reg.Y17, "62 82 1e 28 52 ce"},
		{reg.Y1, reg.Y2, reg.Y3, "62 f2 6e 28 52 d9"},
	} {
		code, err := encodeDot(&ir.Instruction{Opcode: standIn, Operands: []op.Op{c.first, c.x, c.acc}})
		if got := fmt.Sprintf("% x", code); err != nil || got != c.want {
			t.Errorf("%s, %s, %s: % x, %v; want %s", c.first.Asm(), c.x.Asm(), c.acc.Asm(), code, err, c.want)
		}
	}
	if _, err := encodeDot(&ir.Instruction{Operands: []op.Op{op.Mem{Base: reg.RAX, Index: reg.RCX, Scale: 4}, reg.Z1, reg.Z2}}); err == nil {
		t.Error("an index, which is not encoded, is taken")
	}
}
