package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// rowUnit is what rows begin at a multiple of: what a lane loads at a time.
const rowUnit = 16

// matrix lies on the device: row r of expert e at data + e·expertStride + r·pitch.
type matrix struct {
	data         nv.Pointer
	pitch        int // bytes
	expertStride int // bytes
	rows, cols   int
	elem         elem
}

func (m *matrix) params() matrixParams {
	return matrixParams{data: m.data, pitch: int64(m.pitch), expertStride: int64(m.expertStride), rows: int32(m.rows), elem: m.elem}
}

// linear is a matrix with a bias.
type linear struct {
	matrix
	bias nv.Pointer // [experts, rows] or 0
}

// interleaved are the even or odd rows.
func (w linear) interleaved(odd int) linear {
	w.data += nv.Pointer(odd * w.pitch)
	w.pitch *= 2
	w.rows /= 2
	return w
}

// layer is network.Layer's, and what follows from it.
type layer struct {
	attnNorm, postAttnNorm nv.Pointer
	query, key, value, out linear
	queryNorm, keyNorm     nv.Pointer
	sinks                  nv.Pointer

	mlpNorm, postMLPNorm nv.Pointer
	gate, up, down       linear // of all experts, where there are experts
	router               linear
}

// weights are a network's, on the device.
type weights struct {
	memory
	users     int
	embedding matrix
	layers    []layer
	norm      nv.Pointer
	head      linear
	turns     [network.NumKinds]nv.Pointer // [HeadDim/2] float64, of a position
}

// hold brings a network's weights to the device, once for all its users.
func (d *Device) hold(n *network.Network) (*weights, error) {
	if w := d.loaded[n]; w != nil {
		w.users++
		return w, nil
	}
	u := &uploader{d: d, w: &weights{memory: memory{ctx: d.ctx}, users: 1}}
	u.network(n)
	if err := errors.Join(u.err, u.done()); err != nil {
		return nil, errors.Join(err, u.w.free())
	}
	d.loaded[n] = u.w
	return u.w, nil
}

// drop gives them back after the last.
func (d *Device) drop(n *network.Network) error {
	w := d.loaded[n]
	if w.users--; w.users > 0 {
		return nil
	}
	delete(d.loaded, n)
	return w.free()
}

// uploader brings weights to the device. The first error stays, and what comes after is empty.
type uploader struct {
	d       *Device
	w       *weights
	rows    []byte     // on the host: rows with the pitch of the device, or widened
	scratch nv.Pointer // on the device: a matrix by columns
	room    int        // bytes there
	err     error
}

func (u *uploader) network(n *network.Network) {
	w := u.w
	w.embedding = u.matrix(&n.Embedding, elemOf(n.Embedding.Type))
	w.norm = u.vector(n.Norm)
	if sameMatrix(&n.Head.Matrix, &n.Embedding) {
		w.head = linear{matrix: w.embedding, bias: u.vector(n.Head.Bias)}
	} else {
		w.head = u.linear(&n.Head, elemOf(n.Head.Type))
	}
	for k := range network.NumKinds {
		turns := make([]float64, len(n.Ropes[k].Frequencies))
		for i, f := range n.Ropes[k].Frequencies {
			turns[i] = f / (2 * math.Pi)
		}
		w.turns[k] = put(u, turns)
	}
	for i := range n.Layers {
		w.layers = append(w.layers, u.layer(&n.Layers[i]))
	}
}

// sameMatrix reports whether two weights are one tensor.
func sameMatrix(a, b *network.Matrix) bool {
	return a.Rows == b.Rows && a.Type == b.Type && len(a.Data) > 0 && len(b.Data) > 0 && &a.Data[0] == &b.Data[0]
}

func (u *uploader) layer(l *network.Layer) layer {
	qkv := oneKind(l.Query.Type, l.Key.Type, l.Value.Type)
	w := layer{
		attnNorm: u.vector(l.AttnNorm), postAttnNorm: u.vector(l.PostAttnNorm),
		query: u.linear(&l.Query, qkv[0]), key: u.linear(&l.Key, qkv[1]), value: u.linear(&l.Value, qkv[2]),
		out:       u.linear(&l.Out, elemOf(l.Out.Type)),
		queryNorm: u.vector(l.QueryNorm), keyNorm: u.vector(l.KeyNorm), sinks: u.vector(l.Sinks),
		mlpNorm: u.vector(l.MLPNorm), postMLPNorm: u.vector(l.PostMLPNorm),
	}
	if l.Experts == nil {
		e := oneElem(l.Gate.Type, l.Up.Type)
		w.gate, w.up, w.down = u.linear(&l.Gate, e), u.linear(&l.Up, e), u.linear(&l.Down, elemOf(l.Down.Type))
		return w
	}
	w.router = u.linear(&l.Router, elemOf(l.Router.Type))
	pick := func(e elem, of func(e *network.Expert) *network.Linear) linear {
		list := make([]*network.Linear, len(l.Experts))
		for i := range list {
			list[i] = of(&l.Experts[i])
		}
		return u.experts(list, e)
	}
	first := &l.Experts[0]
	w.down = pick(elemOf(first.Down.Type), func(e *network.Expert) *network.Linear { return &e.Down })
	if first.GateUp.Data == nil {
		e := oneElem(first.Gate.Type, first.Up.Type)
		w.gate = pick(e, func(e *network.Expert) *network.Linear { return &e.Gate })
		w.up = pick(e, func(e *network.Expert) *network.Linear { return &e.Up })
		return w
	}
	// Hugging Face: gate and up are the even and odd outputs of one matrix.
	list := make([]*network.Linear, len(l.Experts))
	var gates, ups []float32
	for i := range list {
		list[i] = &l.Experts[i].GateUp
		for r, b := range list[i].Bias {
			if r%2 == 0 {
				gates = append(gates, b)
			} else {
				ups = append(ups, b)
			}
		}
	}
	both := u.matrices(list, elemOf(first.GateUp.Type))
	w.gate, w.up = linear{both, u.vector(gates)}.interleaved(0), linear{both, u.vector(ups)}.interleaved(1)
	return w
}

func (u *uploader) linear(l *network.Linear, e elem) linear {
	return linear{u.matrix(&l.Matrix, e), u.vector(l.Bias)}
}

// experts are one linear of all, with their biases one after the other.
func (u *uploader) experts(list []*network.Linear, e elem) linear {
	var biases []float32
	for _, l := range list {
		biases = append(biases, l.Bias...)
	}
	return linear{u.matrices(list, e), u.vector(biases)}
}

func (u *uploader) vector(x []float32) nv.Pointer { return put(u, x) }

// put copies numbers to the device.
func put[T any](u *uploader, x []T) nv.Pointer {
	if u.err != nil || len(x) == 0 {
		return 0
	}
	p, err := u.w.take(len(x) * int(unsafe.Sizeof(x[0])))
	if u.err = err; err != nil {
		return 0
	}
	u.err = nv.Upload(u.d.stream, p, x)
	return p
}

func (u *uploader) matrix(m *network.Matrix, e elem) matrix {
	return u.matrices([]*network.Linear{{Matrix: *m}}, e)
}

// matrices are those of all experts, in one piece of memory, as elements e.
func (u *uploader) matrices(list []*network.Linear, e elem) matrix {
	first := &list[0].Matrix
	m := matrix{rows: first.Rows, cols: first.Cols, elem: e}
	if first.ByColumns {
		m.rows, m.cols = m.cols, m.rows
	}
	if m.rows > math.MaxInt32 || m.cols > math.MaxInt32/8 {
		u.fail("a matrix of %d rows of %d, want at most %d rows of %d", m.rows, m.cols, math.MaxInt32, math.MaxInt32/8)
	}
	m.pitch = tiles(m.elem.rowBytes(m.cols), rowUnit) * rowUnit
	m.expertStride = m.rows * m.pitch
	if u.err == nil {
		m.data, u.err = u.w.take(len(list) * m.expertStride)
	}
	for i, l := range list {
		to := m
		to.data += nv.Pointer(i * m.expertStride)
		switch {
		case u.err != nil:
		case first.ByColumns:
			u.err = u.columns(to, &l.Matrix)
		default:
			u.err = u.d.fill(u, to, &l.Matrix)
		}
	}
	return m
}

func (u *uploader) fail(format string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf("gpu: "+format, args...)
	}
}

// fillBytes is about how much is brought to the device at a time where rows are changed on the way.
const fillBytes = 16 << 20

// rowsOf brings a matrix's rows: as they are, padded, in blocks put apart, or widened.
func (u *uploader) rowsOf(to matrix, m *network.Matrix) error {
	rowBytes := m.RowBytes()
	if to.elem.keeps(m.Type) && rowBytes == to.pitch {
		return nv.Upload(u.d.stream, to.data, m.Data[:m.Rows*rowBytes])
	}
	atOnce := max(fillBytes/to.pitch, 1)
	for first := 0; first < m.Rows; first += atOnce {
		n := min(atOnce, m.Rows-first)
		u.rows = resize(u.rows, n*to.pitch)
		clear(u.rows)
		if err := packRows(u.rows, to, m.Data[first*rowBytes:][:n*rowBytes], m.Type, n); err != nil {
			return err
		}
		if err := nv.Upload(u.d.stream, to.data+nv.Pointer(first*to.pitch), u.rows); err != nil {
			return err
		}
	}
	return nil
}

// columns brings a matrix that is stored by columns, and turns it there.
func (u *uploader) columns(to matrix, m *network.Matrix) error {
	if len(m.Data) > u.room {
		if err := u.done(); err != nil {
			return err
		}
		p, err := u.d.ctx.Alloc(len(m.Data))
		if err != nil {
			return fmt.Errorf("gpu: %w", err)
		}
		u.scratch, u.room = p, len(m.Data)
	}
	if err := nv.Upload(u.d.stream, u.scratch, m.Data); err != nil {
		return err
	}
	if tail := to.pitch - to.cols*to.elem.bytes(); tail > 0 {
		if err := u.d.stream.Fill(to.data, 0, to.rows*to.pitch); err != nil {
			return err
		}
	}
	const side = 32
	g := nv.Dim3{X: uint32(tiles(m.Cols, side)), Y: uint32(tiles(m.Rows, side)), Z: 1}
	return launch(u.d, transposeMatrix, g, block, 0, transposeParams{
		from: u.scratch, to: to.params(), rows: int32(m.Rows), cols: int32(m.Cols), bytes: int32(to.elem.bytes()),
	})
}

// done waits, and gives scratch memory back.
func (u *uploader) done() error {
	err := errors.Join(u.d.stream.Synchronize(), u.d.ctx.Free(u.scratch))
	u.scratch, u.room = 0, 0
	return err
}

// resize is s with n elements, of whatever values.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
