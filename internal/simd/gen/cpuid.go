package main

import "github.com/mmcloughlin/avo/reg"

// cpuidFile emits a query of the processor's maker and model.
func cpuidFile(g *gen) {
	g.TEXT("cpuid", "func() (vendor, signature uint32)",
		"returns the first four letters of the vendor's name (leaf 0, EBX), and family, model and stepping (leaf 1, EAX).")
	g.XORL(reg.EAX, reg.EAX)
	g.CPUID()
	vendor := g.GP32()
	g.MOVL(reg.EBX, vendor)
	g.XORL(reg.EAX, reg.EAX)
	g.INCL(reg.EAX)
	g.CPUID()
	signature := g.GP32()
	g.MOVL(reg.EAX, signature)
	g.Store(vendor, g.ReturnIndex(0))
	g.Store(signature, g.ReturnIndex(1))
	g.RET()
}
