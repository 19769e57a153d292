package tensorfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
)

const (
	// inflatedShare times the archive's size, or leastInflated where that is more, bounds what its
	// deflated entries may come to, in bytes, and 4 GiB does in any case. Numbers of a model shrink to a
	// third at best; deflate would allow a hostile archive 1032 to 1. Stored entries, which are used in
	// place, are not counted.
	inflatedShare = 32
	leastInflated = 16 << 20
	maxInflated   = 4 << 30
	// maxDeflateRatio is the most bytes that one byte of deflate data can become.
	maxDeflateRatio = 1032
)

// ParseNPZ reads a whole .npz archive. Entry "q.npy" is tensor "q".
//
// Every array of one element is also in Metadata, as text under its name: numbers in the fewest digits
// that give them back, booleans as "true" and "false". One string (numpy's dtypes U and S) is in
// Metadata only; more than one in an array are refused.
//
// Stored entries, whose checksums are compared, lie in data. Deflated ones are inflated, to 32 times the
// archive's size in all (16 MiB for small ones, 4 GiB for any), and only if the archive's directory and the entry's own npy header agree on the size;
// memory grows as bytes arrive. Refused, too: encrypted entries, other methods, entries that overlap,
// that come twice, or whose names are not plain relative paths that end in .npy.
//
// Errors wrap ErrFormat, ErrDType, ErrShape or ErrTooLarge.
func ParseNPZ(data []byte) (*File, error) {
	f, err := parseNPZ(data, inflateBudget(len(data)))
	if err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	return f, nil
}

// inflateBudget is how many bytes the deflated entries of an archive may come to.
func inflateBudget(size int) uint64 {
	return min(max(inflatedShare*uint64(size), leastInflated), maxInflated)
}

// parseNPZ inflates at most budget bytes.
func parseNPZ(data []byte, budget uint64) (*File, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("zip archive: %w: %w", err, ErrFormat)
	}
	entries, err := npzEntries(archive, len(data))
	if err != nil {
		return nil, err
	}
	var tensors []Tensor
	metadata := map[string]string{}
	for _, e := range entries {
		array, text, err := e.read(data, &budget)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(e.name), err)
		}
		if text != nil {
			metadata[e.name] = *text
			continue
		}
		array.Name = e.name
		tensors = append(tensors, array)
		if text, ok := array.text(); ok {
			metadata[e.name] = text
		}
	}
	return newFile(tensors, metadata), nil
}

// npzEntry is one array of an archive, checked as far as the archive's directory goes.
type npzEntry struct {
	*zip.File
	name       string
	begin, end int // bytes in the archive, compressed
}

func npzEntries(archive *zip.Reader, size int) ([]npzEntry, error) {
	entries := make([]npzEntry, len(archive.File))
	seen := make(map[string]bool, len(archive.File))
	for i, f := range archive.File {
		e, err := newNPZEntry(f, size)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", quote(f.Name), err)
		}
		if seen[e.name] {
			return nil, fmt.Errorf("entry %s comes twice: %w", quote(f.Name), ErrFormat)
		}
		seen[e.name] = true
		entries[i] = e
	}
	// Entries that share bytes are how a small archive inflates past every ratio.
	slices.SortFunc(entries, func(a, b npzEntry) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(entries); i++ {
		if a, b := entries[i-1], entries[i]; b.begin < a.end {
			return nil, fmt.Errorf("entries %s and %s overlap: %w", quote(a.Name), quote(b.Name), ErrFormat)
		}
	}
	return entries, nil
}

func newNPZEntry(f *zip.File, size int) (npzEntry, error) {
	name, err := tensorOfEntry(f.Name)
	if err != nil {
		return npzEntry{}, err
	}
	const encrypted = 1 // bit of the flags
	if f.Flags&encrypted != 0 {
		return npzEntry{}, fmt.Errorf("is encrypted: %w", ErrFormat)
	}
	if f.Method != zip.Store && f.Method != zip.Deflate {
		return npzEntry{}, fmt.Errorf("compression method %d, wanted stored (0) or deflated (8): %w", f.Method, ErrFormat)
	}
	at, err := f.DataOffset()
	if err != nil {
		return npzEntry{}, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	if at < 0 || at > int64(size) || f.CompressedSize64 > uint64(size)-uint64(at) {
		return npzEntry{}, fmt.Errorf("%d bytes from %d on, in a file of %d: %w", f.CompressedSize64, at, size, ErrFormat)
	}
	return npzEntry{f, name, int(at), int(at) + int(f.CompressedSize64)}, nil
}

// tensorOfEntry is the tensor's name. Nothing is ever written under it, but others may be less careful
// with the names that this package hands out.
func tensorOfEntry(entry string) (string, error) {
	name, ok := strings.CutSuffix(entry, ".npy")
	if !ok {
		return "", fmt.Errorf("does not end in .npy: %w", ErrFormat)
	}
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return "", fmt.Errorf("is not a plain relative path: %w", ErrFormat)
	}
	return name, nil
}

// read gives the entry's array, or its one string.
func (e npzEntry) read(data []byte, budget *uint64) (Tensor, *string, error) {
	h, body, err := e.open(data, budget)
	if err != nil {
		return Tensor{}, nil, err
	}
	if !h.isText() {
		return h.tensor(body), nil, nil
	}
	text, err := h.text(body)
	if err != nil {
		return Tensor{}, nil, err
	}
	return Tensor{}, &text, nil
}

// open gives the entry's npy header and the bytes of its array.
func (e npzEntry) open(data []byte, budget *uint64) (npyHeader, []byte, error) {
	if e.Method == zip.Deflate {
		return e.inflate(budget)
	}
	stored := data[e.begin:e.end]
	h, err := e.header(stored)
	if err != nil {
		return npyHeader{}, nil, err
	}
	if len(stored) != h.dataAt+h.dataSize {
		return npyHeader{}, nil, fmt.Errorf("stored in %d bytes, wanted %d: %w", len(stored), h.dataAt+h.dataSize, ErrFormat)
	}
	if sum := crc32.ChecksumIEEE(stored); sum != e.CRC32 {
		return npyHeader{}, nil, fmt.Errorf("checksum %08x, the archive's directory says %08x: %w", sum, e.CRC32, ErrFormat)
	}
	return h, stored[h.dataAt:], nil
}

// inflate reads as far as the npy header first, so that an entry whose sizes disagree costs that much.
func (e npzEntry) inflate(budget *uint64) (npyHeader, []byte, error) {
	declared := e.UncompressedSize64
	if declared/maxDeflateRatio > e.CompressedSize64 {
		return npyHeader{}, nil, fmt.Errorf("%d bytes of deflate data cannot become the %d declared: %w",
			e.CompressedSize64, declared, ErrTooLarge)
	}
	if most := min(*budget, math.MaxInt); declared > most {
		return npyHeader{}, nil, fmt.Errorf("inflates to %d bytes where the limit leaves %d: %w", declared, most, ErrTooLarge)
	}
	*budget -= declared

	r, err := e.Open()
	if err != nil {
		return npyHeader{}, nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	defer r.Close() // it only hands back the decompressor
	prefix, err := readGrowing(r, nil, min(int(declared), maxNPYPrefix))
	if err != nil {
		return npyHeader{}, nil, err
	}
	h, err := e.header(prefix)
	if err != nil {
		return npyHeader{}, nil, err
	}
	whole, err := readGrowing(r, prefix, int(declared))
	if err != nil {
		return npyHeader{}, nil, err
	}
	// Only at its end does the zip reader compare sizes and checksum.
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return npyHeader{}, nil, fmt.Errorf("after the %d bytes declared, wanted the end, got %d bytes more and %v: %w",
			declared, n, err, ErrFormat)
	}
	return h, whole[h.dataAt:], nil
}

// header parses the npy header and holds it against the archive's directory.
func (e npzEntry) header(prefix []byte) (npyHeader, error) {
	h, err := parseNPYHeader(prefix)
	if err != nil {
		return npyHeader{}, err
	}
	if h.isText() && !isOne(h.shape) {
		return npyHeader{}, fmt.Errorf("strings of shape %v, wanted one: %w", h.shape, ErrDType)
	}
	want := uint64(h.dataAt) + uint64(h.dataSize)
	if e.UncompressedSize64 != want {
		return npyHeader{}, fmt.Errorf("shape %v wants an entry of %d bytes, the archive's directory says %d: %w",
			h.shape, want, e.UncompressedSize64, ErrShape)
	}
	return h, nil
}

// isOne tells whether an array of that shape has one element.
func isOne(shape []int) bool {
	return !slices.ContainsFunc(shape, func(dim int) bool { return dim != 1 })
}

// readGrowing appends to buf until it has size bytes. The buffer doubles as they arrive, so that a size
// which the data does not live up to costs no more than twice the data.
func readGrowing(r io.Reader, buf []byte, size int) ([]byte, error) {
	const least = 4 << 10 // bytes
	for len(buf) < size {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(size, max(least, 2*cap(buf))))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[len(buf):min(size, cap(buf))])
		buf = buf[:len(buf)+n]
		if err != nil {
			return nil, fmt.Errorf("inflated %d bytes of %d: %w: %w", len(buf), size, err, ErrFormat)
		}
	}
	return buf, nil
}
