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
	broadcast := []string{"BCST"}
	for _, c := range []struct {
		first    op.Op
		x, acc   reg.Register
		suffixes []string
		want     string
	}{
		{op.Mem{Base: reg.RDX}, reg.Z26, reg.Z0, broadcast, "62 f2 2e 50 52 02"},
		{op.Mem{Base: reg.RDX, Disp: 128}, reg.Z5, reg.Z8, broadcast, "62 72 56 58 52 42 20"},
		{op.Mem{Base: reg.R12, Disp: 512}, reg.Z15, reg.Z31, broadcast, "62 42 06 58 52 bc 24 00 02 00 00"},
		{op.Mem{Base: reg.R13, Disp: 896}, reg.Z16, reg.Z16, broadcast, "62 c2 7e 50 52 85 80 03 00 00"},
		{op.Mem{Base: reg.RBP}, reg.Z1, reg.Z2, broadcast, "62 f2 76 58 52 55 00"},
		{op.Mem{Base: reg.RSP, Disp: -4}, reg.Z1, reg.Z2, broadcast, "62 f2 76 58 52 54 24 ff"},
		{op.Mem{Base: reg.R8, Disp: 6}, reg.Z1, reg.Z2, broadcast, "62 d2 76 58 52 90 06 00 00 00"},
		{op.Mem{Base: reg.R12, Index: reg.RBX, Scale: 4, Disp: 100}, reg.Z1, reg.Z2, broadcast, "62 d2 76 58 52 54 9c 19"},
		{op.Mem{Base: reg.RDX}, reg.Z26, reg.Z0, nil, "62 f2 2e 40 52 02"},
		{op.Mem{Base: reg.R12, Disp: 64}, reg.Z5, reg.Z8, nil, "62 52 56 48 52 44 24 01"},
		{op.Mem{Base: reg.RDX, Index: reg.R11, Scale: 2}, reg.Z18, reg.Z31, nil, "62 22 6e 40 52 3c 5a"},
		{op.Mem{Base: reg.R13, Index: reg.RCX, Scale: 1, Disp: 128}, reg.Z18, reg.Z6, nil, "62 d2 6e 40 52 74 0d 02"},
		{op.Mem{Base: reg.RBP, Index: reg.R9, Scale: 1}, reg.Z1, reg.Z2, nil, "62 b2 76 48 52 54 0d 00"},
		{op.Mem{Base: reg.R12, Disp: 32}, reg.Y5, reg.Y8, nil, "62 52 56 28 52 44 24 01"},
		{op.Mem{Base: reg.R13, Index: reg.RCX, Scale: 2, Disp: 96}, reg.Y18, reg.Y6, nil, "62 d2 6e 20 52 74 4d 03"},
		{reg.Z3, reg.Z20, reg.Z9, nil, "62 72 5e 40 52 cb"},
		{reg.Y30, reg.Y12, reg.Y17, nil, "62 82 1e 28 52 ce"},
		{reg.Y1, reg.Y2, reg.Y3, nil, "62 f2 6e 28 52 d9"},
	} {
		code, err := encodeDot(&ir.Instruction{Opcode: standIn, Suffixes: c.suffixes, Operands: []op.Op{c.first, c.x, c.acc}})
		if got := fmt.Sprintf("% x", code); err != nil || got != c.want {
			t.Errorf("%s, %s, %s: % x, %v; want %s", c.first.Asm(), c.x.Asm(), c.acc.Asm(), code, err, c.want)
		}
	}
	if _, err := encodeDot(&ir.Instruction{Operands: []op.Op{op.Mem{Symbol: op.Symbol{Name: "table"}, Base: reg.StaticBase}, reg.Z1, reg.Z2}}); err == nil {
		t.Error("a symbol, which is not encoded, is taken")
	}
}
