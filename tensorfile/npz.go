package tensorfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
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
	// maxText is the most bytes of one string, as they lie in the entry.
	maxText = 16 << 20
)

// ParseNPZ reads a whole .npz archive. Entry "q.npy" is tensor "q".
//
// Every array of one element is also in Metadata, as text under its name: numbers in the fewest digits
// that give them back, booleans as "true" and "false". One string (numpy's dtypes U and S) is in
// Metadata only; more than one in an array are refused.
//
// Stored entries, whose checksums are compared, lie in data. Deflated ones are inflated, to 32 times the
// archive's size in all (16 MiB for small ones, 4 GiB for any), and only once all entries' npy headers
// agree with the archive's directory on their sizes: into as many bytes, never more. Refused, too:
// encrypted entries, other methods, entries that overlap, that come twice, or whose names are not plain
// relative paths that end in .npy, and strings of more than 16 MiB.
//
// Errors wrap ErrFormat, ErrDType, ErrShape or ErrTooLarge.
func ParseNPZ(data []byte) (*File, error) {
	f, err := parseNPZ(data, inflateBudget(len(data)))
	if err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	return f, nil
}

// parseNPZ reads all arrays into memory, deflated ones to at most budget bytes.
func parseNPZ(data []byte, budget uint64) (*File, error) {
	f, err := indexNPZ(data, budget)
	if err != nil {
		return nil, err
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		e, ok := f.pending[t.Name]
		if !ok {
			continue
		}
		if _, err := e.load(context.Background(), t, memoryRoom); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
	}
	f.pending = nil
	return f, nil
}

// inflateBudget is how many bytes the deflated entries of an archive may come to.
func inflateBudget(size int) uint64 {
	return min(max(inflatedShare*uint64(size), leastInflated), maxInflated)
}

// indexNPZ reads the directory, every entry's npy header, and then what is Metadata.
func indexNPZ(data []byte, budget uint64) (*File, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("zip archive: %w: %w", err, ErrFormat)
	}
	entries, err := npzEntries(archive, data)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if err := entries[i].readHeader(&budget); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(entries[i].name), err)
		}
	}
	var tensors []Tensor
	f := &File{Metadata: map[string]string{}, pending: map[string]npzEntry{}}
	for _, e := range entries {
		t, text, err := e.index()
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(e.name), err)
		}
		if text != nil {
			f.Metadata[e.name] = *text
		}
		if e.header.isText() {
			continue
		}
		tensors = append(tensors, t)
		if text == nil {
			f.pending[e.name] = e
		}
	}
	f.Tensors = inNameOrder(tensors)
	return f, nil
}

// npzEntry is one array of an archive, checked as far as the archive's directory goes, and with
// readHeader as far as its npy header does.
type npzEntry struct {
	*zip.File
	name   string
	data   []byte // as they lie in the archive
	begin  int    // of data
	header npyHeader
}

func npzEntries(archive *zip.Reader, data []byte) ([]npzEntry, error) {
	entries := make([]npzEntry, len(archive.File))
	seen := make(map[string]bool, len(archive.File))
	for i, f := range archive.File {
		e, err := newNPZEntry(f, data)
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
		if a, b := entries[i-1], entries[i]; b.begin < a.begin+len(a.data) {
			return nil, fmt.Errorf("entries %s and %s overlap: %w", quote(a.Name), quote(b.Name), ErrFormat)
		}
	}
	return entries, nil
}

func newNPZEntry(f *zip.File, archive []byte) (npzEntry, error) {
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
	if size := int64(len(archive)); at < 0 || at > size || f.CompressedSize64 > uint64(size-at) {
		return npzEntry{}, fmt.Errorf("%d bytes from %d on, in a file of %d: %w", f.CompressedSize64, at, size, ErrFormat)
	}
	return npzEntry{File: f, name: name, data: archive[at:][:f.CompressedSize64], begin: int(at)}, nil
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
