//go:build linux

package main

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Peak memory stays below 1.3 times the file's tensors, plus 100 MB: whatever the format
// and the type, and whether keys and values are used in place or copied. Where --kv-dtype
// makes them larger, they count as they are stored; a result that is written counts, too.
func TestPeakMemory(t *testing.T) {
	if testing.Short() || underRace() {
		t.Skip("files of hundreds of megabytes")
	}
	const mb = 1 << 20
	for _, c := range []struct {
		name   string
		file   *bigCase
		larger int // times that keys and values grow
		args   []string
	}{
		{"in place", longKeys("large.safetensors", "F16", 128*mb), 1, []string{"run"}},
		{"copied", longKeys("large.safetensors", "F16", 128*mb), 1, []string{"run", "--page-size=16"}},
		{"rounded, and then copied", longKeys("large.safetensors", "F64", 128*mb), 1, []string{"run", "--page-size=16"}},
		{"stored larger", longKeys("large.safetensors", "F16", 64*mb), 2, []string{"run", "--kv-dtype=f32"}},
		{"archive", longKeys("stored.npz", "F16", 128*mb), 1, []string{"run", "--page-size=16"}},
		{"deflated archive", longKeys("deflated.npz", "F16", 128*mb), 1, []string{"run", "--page-size=16"}},
		{"big-endian archive", longKeys("big-endian.npz", "F16", 128*mb), 1, []string{"run", "--page-size=16"}},
		{"many splits", longKeys("large.safetensors", "F16", 128*mb), 1, []string{"run", "--splits=20000"}},
		{"short sequences", &bigCase{"short.safetensors", "F16", [4]int{3000, 16, 1, 32}, [4]int{3000, 16, 16, 32}}, 1, []string{"run", "--page-size=16"}},
		{"tiny sequences", &bigCase{"tiny.safetensors", "F32", [4]int{125_000, 16, 1, 1}, [4]int{125_000, 16, 1, 1}}, 1, []string{"run"}},
		{"many queries", &bigCase{"queries.safetensors", "F16", [4]int{1, 8, 60_000, 64}, [4]int{1, 8, 4, 64}}, 1, []string{"run"}},
		{"many queries in splits", &bigCase{"queries.safetensors", "F16", [4]int{1, 8, 60_000, 64}, [4]int{1, 8, 4, 64}}, 1, []string{"verify", "--splits=4"}},
		{"many queries written", &bigCase{"queries.safetensors", "F16", [4]int{1, 8, 60_000, 64}, [4]int{1, 8, 4, 64}}, 1, []string{"run", "-o", filepath.Join(t.TempDir(), "out.npz")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file.name)
			c.file.write(t, path)
			peak := peakOf(t, exitDone, slices.Insert(slices.Clone(c.args), 1, path)...)
			size := c.file.bytes(c.file.q) + 2*c.file.bytes(c.file.kv)*c.larger
			if slices.Contains(c.args, "-o") {
				size += c.file.resultBytes()
			}
			limit := size*13/10 + 100e6
			t.Logf("peak %d MB, tensors %d MB, limit %d MB", peak/1e6, size/1e6, limit/1e6)
			if peak > limit {
				t.Errorf("peak memory is %d bytes, want at most %d", peak, limit)
			}
		})
	}
}

// An archive that would inflate to 32 times its size, and has no keys, costs its
// headers.
func TestPeakMemoryOfABomb(t *testing.T) {
	if testing.Short() || underRace() {
		t.Skip("600 MB of zeros to deflate")
	}
	path := filepath.Join(t.TempDir(), "bomb.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(f)
	for _, x := range []struct {
		name   string
		method uint16
		elems  int
	}{{"ballast", zip.Store, 5 << 20}, {"q", zip.Deflate, 150 << 20}} {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: x.name + ".npy", Method: x.method})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, npyHeader("<f4", [4]int{1, 1, 1, x.elems}))
		if _, err := io.CopyN(w, zeros{}, int64(4*x.elems)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if peak := peakOf(t, exitBadInput, "run", path); peak > 100e6 {
		t.Errorf("peak memory is %d bytes, want at most 100 MB", peak)
	}
	refuses(t, []string{path, "tensor k", "missing"}, "run", path)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// peakOf runs the command as a process of its own, which is to end with a code.
func peakOf(t *testing.T, code int, args ...string) int {
	t.Helper()
	// A child begins with its parent's peak, before it becomes another program. What
	// earlier tests took is given back, and the peak begins anew: proc(5), clear_refs.
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		t.Logf("the peak may be an earlier test's: %v", err)
	}
	cmd := exec.Command(os.Args[0], args...)
	// On two threads, wherever it runs: the more there are, the more garbage lies about while the collector works.
	cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1", "GOMAXPROCS=2")
	report, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v, want exit code %d\n%s", err, code, report)
	}
	return int(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) << 10
}

// bigCase is a case that is written piece by piece: a process that once had it
// all in memory would pass that peak on to its child.
type bigCase struct {
	name  string
	dtype string
	q, kv [4]int // shapes
}

// longKeys is a file of about so many bytes of keys and values.
func longKeys(name, dtype string, size int) *bigCase {
	f := &bigCase{name, dtype, [4]int{1, 8, 1, 128}, [4]int{1, 4, 1, 128}}
	f.kv[2] = size / (2 * f.bytes(f.kv))
	return f
}

func (f *bigCase) elem() int { return map[string]int{"F16": 2, "F32": 4, "F64": 8}[f.dtype] }

func (f *bigCase) bytes(shape [4]int) int {
	return shape[0] * shape[1] * shape[2] * shape[3] * f.elem()
}

// resultBytes is the size of out and lse in float32.
func (f *bigCase) resultBytes() int { return f.q[0] * f.q[1] * f.q[2] * (f.kv[3] + 1) * 4 }

func (f *bigCase) write(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(file, 1<<20)
	if strings.HasSuffix(path, ".npz") {
		err = f.writeArchive(w)
	} else {
		f.writeSafetensors(w)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil { // which has kept the first error
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func (f *bigCase) writeSafetensors(w io.Writer) {
	var header strings.Builder
	at, separator := 0, "{"
	for _, x := range f.tensors() {
		fmt.Fprintf(&header, `%s"%s":{"dtype":"%s","shape":[%d,%d,%d,%d],"data_offsets":[%d,%d]}`,
			separator, x.name, f.dtype, x.shape[0], x.shape[1], x.shape[2], x.shape[3], at, at+f.bytes(x.shape))
		at, separator = at+f.bytes(x.shape), ","
	}
	header.WriteString("}")
	for header.Len()%8 != 0 {
		header.WriteString(" ")
	}
	binary.Write(w, binary.LittleEndian, uint64(header.Len()))
	io.WriteString(w, header.String())
	for _, x := range f.tensors() {
		f.writeNumbers(w, x.shape, binary.LittleEndian)
	}
}

// writeArchive deflates, or turns bytes around, if the file's name says so.
func (f *bigCase) writeArchive(w io.Writer) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	method := zip.Store
	if strings.HasPrefix(f.name, "deflated") {
		method = zip.Deflate
	}
	for _, x := range f.tensors() {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: x.name + ".npy", Method: method})
		if err != nil {
			return err
		}
		buffered := bufio.NewWriterSize(entry, 64<<10)
		var order binary.AppendByteOrder = binary.LittleEndian
		descr := "<f"
		if strings.HasPrefix(f.name, "big-endian") {
			order, descr = binary.BigEndian, ">f"
		}
		io.WriteString(buffered, npyHeader(fmt.Sprint(descr, f.elem()), x.shape))
		f.writeNumbers(buffered, x.shape, order)
		if err := buffered.Flush(); err != nil {
			return err
		}
	}
	return archive.Close()
}

func npyHeader(descr string, s [4]int) string {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", descr, s[0], s[1], s[2], s[3])
	return fmt.Sprintf("\x93NUMPY\x01\x00\xf6\x00%-245s\n", dict)
}

type namedShape struct {
	name  string
	shape [4]int
}

func (f *bigCase) tensors() []namedShape { return []namedShape{{"q", f.q}, {"k", f.kv}, {"v", f.kv}} }

// writeNumbers writes sixteenths from −15 to 15, which every type holds, in an order
// that deflate can make little of.
func (f *bigCase) writeNumbers(w io.Writer, shape [4]int, order binary.AppendByteOrder) {
	state := uint32(1)
	var piece []byte
	for range f.bytes(shape) / f.elem() {
		state = state*1664525 + 1013904223
		x := float32(int(state>>24)%31-15) / 16
		switch f.elem() {
		case 2:
			// The upper half of a float32 of such few bits, moved to binary16's place.
			bits := math.Float32bits(x)
			half := uint16(bits >> 16 & 0x8000)
			if x != 0 {
				half |= uint16((bits>>23&0xff)-112)<<10 | uint16(bits>>13&0x3ff)
			}
			piece = order.AppendUint16(piece, half)
		case 4:
			piece = order.AppendUint32(piece, math.Float32bits(x))
		default:
			piece = order.AppendUint64(piece, math.Float64bits(float64(x)))
		}
		if len(piece) >= 64<<10 {
			w.Write(piece)
			piece = piece[:0]
		}
	}
	w.Write(piece)
}
