package model

import (
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
)

// fewRows is up to how many rows of x a matrix's rows are read where they lie, once for each or for all: beyond, making a
// panel of them costs less.
const fewRows = 8 // docs/calibration.md

// takesPanels reports whether n rows of x are many.
func (c *crew) takesPanels(n int) bool { return n > fewRows && !c.rowByRow }

// panelOutputs is how many outputs a task of many rows has: the rows of a panel.
const panelOutputs = simd.TileKeys

// rowsPerPart is the fewest rows of x worth a panel of their own.
const rowsPerPart = 64

// many is products of many rows of one x: tasks are panels of all products, for each part of the rows. A part's
// come one after the other, so that who takes them keeps its rows of x in the cache.
type many struct {
	n, parts int
	panels   int // of all products
	products []product
}

func numPanels(w *network.Linear) int { return (w.Outputs() + panelOutputs - 1) / panelOutputs }

// split says how products of n rows are cut: into as few parts as let all threads end at about the same time.
func (c *crew) split(n, panels int) (parts int) {
	threads := len(c.seats)
	for parts = 1; parts < n/rowsPerPart; parts++ {
		tasks := panels * parts
		if turns := (tasks + threads - 1) / threads; turns*threads-tasks <= tasks/16 {
			break
		}
	}
	return parts
}

// multiplyMany is multiply for many rows.
func (c *crew) multiplyMany(n int, products ...product) {
	m := many{n: n, products: products}
	for i := range products {
		m.panels += numPanels(products[i].w)
	}
	m.parts = c.split(n, m.panels)
	c.run(m.panels*m.parts, func(s *seat, task int) {
		from, to := m.rows(task / m.panels)
		task %= m.panels
		i := 0
		for ; task >= numPanels(products[i].w); i++ {
			task -= numPanels(products[i].w)
		}
		products[i].panel(s, from, to, task)
	})
}

// rows are those of a part, [from, to).
func (m *many) rows(part int) (from, to int) { return part * m.n / m.parts, (part + 1) * m.n / m.parts }

// panel computes the outputs of one panel for rows [from, to) of x, and says which they are.
func (p *product) panel(s *seat, from, to, i int) (lo, hi int) {
	w := p.w
	lo, hi = i*panelOutputs, min((i+1)*panelOutputs, w.Outputs())
	x, y, outputs := p.x[from*w.Inputs():to*w.Inputs()], p.y[from*w.Outputs():to*w.Outputs()], w.Outputs()
	if w.ByColumns {
		(&product{w, x, y}).byColumns(s, to-from, lo, hi)
	} else {
		tile := simd.Tile{Data: w.Data, Off: rowList(s.off[0][:], lo, hi, w.RowBytes())}
		if e, plain := elemOf(w.Type); plain {
			s.panel.Set(e, tile, w.Cols)
		} else {
			s.panel.SetBlocks(blockOf[w.Type], tile, w.Cols)
		}
		s.panel.Multiply(y[lo:], outputs, x, to-from)
	}
	if w.Bias != nil {
		for i := range to - from {
			simd.Add(y[i*outputs+lo:i*outputs+hi], w.Bias[lo:hi])
		}
	}
	return lo, hi
}

// gatedMany is gated for many rows.
func (b *host) gatedMany(g, u product, n int) {
	m := many{n: n, panels: numPanels(g.w)}
	m.parts = b.crew.split(n, m.panels)
	size := g.w.Outputs()
	b.crew.run(m.panels*m.parts, func(s *seat, task int) {
		from, to := m.rows(task / m.panels)
		lo, hi := g.panel(s, from, to, task%m.panels)
		u.panel(s, from, to, task%m.panels)
		for i := from; i < to; i++ {
			h := g.y[i*size+lo : i*size+hi]
			applyGate(b.net.Gate, h, h, u.y[i*size+lo:i*size+hi])
		}
	})
}
