package tensorfile

import (
	"archive/zip"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// readHeader parses the npy header and holds it against the archive's directory, so that an entry whose
// sizes disagree costs no more than that.
func (e *npzEntry) readHeader(budget *uint64) error {
	if err := e.checkSizes(budget); err != nil {
		return err
	}
	prefix := e.data
	if e.Method == zip.Deflate {
		var err error
		if prefix, err = e.inflatePrefix(); err != nil {
			return err
		}
	}
	h, err := parseNPYHeader(prefix)
	if err != nil {
		return err
	}
	if h.isText() && !isOne(h.shape) {
		return fmt.Errorf("strings of shape %v, wanted one: %w", h.shape, ErrDType)
	}
	if h.isText() && h.dataSize > maxText {
		return fmt.Errorf("string of %d bytes passes the limit of %d: %w", h.dataSize, maxText, ErrTooLarge)
	}
	want := uint64(h.dataAt) + uint64(h.dataSize)
	if e.UncompressedSize64 != want {
		return fmt.Errorf("shape %v wants an entry of %d bytes, the archive's directory says %d: %w",
			h.shape, want, e.UncompressedSize64, ErrShape)
	}
	if e.Method == zip.Store && uint64(len(e.data)) != want {
		return fmt.Errorf("stored in %d bytes, wanted %d: %w", len(e.data), want, ErrFormat)
	}
	e.header = h
	return nil
}

// checkSizes holds what a deflated entry declares against what its bytes can become, and against the
// budget, from which it is taken.
func (e *npzEntry) checkSizes(budget *uint64) error {
	if e.Method != zip.Deflate {
		return nil
	}
	declared := e.UncompressedSize64
	if declared/maxDeflateRatio > e.CompressedSize64 {
		return fmt.Errorf("%d bytes of deflate data cannot become the %d declared: %w", e.CompressedSize64, declared, ErrTooLarge)
	}
	if most := min(*budget, math.MaxInt); declared > most {
		return fmt.Errorf("inflates to %d bytes where the limit leaves %d: %w", declared, most, ErrTooLarge)
	}
	*budget -= declared
	return nil
}

// inflatePrefix inflates as far as the npy header, or the entry, goes.
func (e *npzEntry) inflatePrefix() ([]byte, error) {
	r, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	defer r.Close()                                           // it only hands back the decompressor
	prefix := make([]byte, 0, min(e.UncompressedSize64, 128)) // numpy's usual header
	for n := npyFixed; ; n = npyPrefix(prefix) {
		n = int(min(uint64(n), e.UncompressedSize64))
		if len(prefix) >= n {
			return prefix, nil
		}
		begin := len(prefix)
		prefix = slices.Grow(prefix, n-begin)[:n]
		if got, err := io.ReadFull(r, prefix[begin:]); err != nil {
			return nil, fmt.Errorf("inflated %d bytes of %d: %w: %w", begin+got, e.UncompressedSize64, err, ErrFormat)
		}
	}
}

// index describes the entry's array, or reads it where it has one element: then text says it, too, and
// of a string nothing else does.
func (e *npzEntry) index() (t Tensor, text *string, err error) {
	h := &e.header
	t = Tensor{Name: e.name, DType: h.dtype, Shape: h.shape}
	if !isOne(h.shape) {
		return t, nil, nil
	}
	var s string
	if h.isText() {
		s, err = e.text()
		return t, &s, err
	}
	if _, err := e.load(context.Background(), &t, memoryRoom); err != nil {
		return t, nil, err
	}
	s, _ = t.Text()
	return t, &s, nil
}

func (e *npzEntry) text() (string, error) {
	body, err := e.body(context.Background(), memoryRoom)
	if err != nil {
		return "", err
	}
	return e.header.text(body.data)
}

// load gives a tensor its Data, and returns what they lie in where that is to be unmapped.
func (e *npzEntry) load(ctx context.Context, t *Tensor, newRoom func(size int) *room) (mapping, error) {
	m, err := e.body(ctx, newRoom)
	if err != nil {
		return mapping{}, err
	}
	if !e.header.inPlace() {
		arranged, err := e.arrange(ctx, m.data, newRoom(e.header.dataSize))
		if m.unmap != nil {
			_ = m.unmap() // it has been read
		}
		if err != nil {
			return mapping{}, err
		}
		m = arranged
	}
	t.Data = m.data[:len(m.data):len(m.data)]
	return m, nil
}

// arrange copies an array whose elements are not as a Tensor has them.
func (e *npzEntry) arrange(ctx context.Context, body []byte, into *room) (mapping, error) {
	defer into.drop()
	if err := e.header.arrange(ctx, into, body); err != nil {
		return mapping{}, err
	}
	return into.mapped()
}

// body is the bytes of the entry's array.
func (e *npzEntry) body(ctx context.Context, newRoom func(size int) *room) (mapping, error) {
	if e.Method == zip.Deflate {
		into := newRoom(e.header.dataSize)
		defer into.drop()
		if err := e.inflate(ctx, into); err != nil {
			return mapping{}, err
		}
		return into.mapped()
	}
	sum := uint32(0)
	err := steps(ctx, e.data, func(piece []byte) error {
		sum = crc32.Update(sum, crc32.IEEETable, piece)
		return nil
	})
	if err != nil {
		return mapping{}, err
	}
	if sum != e.CRC32 {
		return mapping{}, fmt.Errorf("checksum %08x, the archive's directory says %08x: %w", sum, e.CRC32, ErrFormat)
	}
	return mapping{data: e.data[e.header.dataAt:]}, nil
}

// inflate writes the array, of exactly the size that its header says.
func (e *npzEntry) inflate(ctx context.Context, into io.Writer) error {
	r, err := e.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrFormat)
	}
	defer r.Close() // it only hands back the decompressor
	h := &e.header
	if _, err := io.CopyN(io.Discard, r, int64(h.dataAt)); err != nil {
		return fmt.Errorf("npy header: %w: %w", err, ErrFormat)
	}
	const most = 64 << 10 // bytes at a time, less than a millisecond's work
	piece := make([]byte, min(h.dataSize, most))
	for at := 0; at < h.dataSize; at += len(piece) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		piece = piece[:min(len(piece), h.dataSize-at)]
		if n, err := io.ReadFull(r, piece); err != nil {
			return fmt.Errorf("inflated %d bytes of %d: %w: %w", h.dataAt+at+n, e.UncompressedSize64, err, ErrFormat)
		}
		if _, err := into.Write(piece); err != nil {
			return err
		}
	}
	// Only at its end does the zip reader compare sizes and checksum.
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("after the %d bytes declared, wanted the end, got %d bytes more and %v: %w",
			e.UncompressedSize64, n, err, ErrFormat)
	}
	return nil
}

// isOne tells whether an array of that shape has one element.
func isOne(shape []int) bool {
	return !slices.ContainsFunc(shape, func(dim int) bool { return dim != 1 })
}
