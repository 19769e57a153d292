//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Peak memory of run stays below 1.3 times the tensors plus 100 MB, whatever the
// file's type, and whether keys and values are used in place or copied.
func TestRunMemory(t *testing.T) {
	if testing.Short() || underRace() {
		t.Skip("300 MB of tensors")
	}
	const size = 300 << 20
	for _, c := range []struct {
		dtype string
		bytes int
		flags []string
	}{
		{"F16", 2, nil},
		{"F64", 8, []string{"--page-size=16"}}, // rounded, and then copied
	} {
		t.Run(fmt.Sprint(c.dtype, c.flags), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "large.safetensors")
			tensors := writeLarge(t, path, c.dtype, c.bytes, size)
			peak := peakOf(t, append([]string{"run", path}, c.flags...)...)
			limit := tensors*13/10 + 100e6
			t.Logf("peak %d MB, tensors %d MB, limit %d MB", peak/1e6, tensors/1e6, limit/1e6)
			if peak > limit {
				t.Errorf("peak memory is %d bytes, want at most %d", peak, limit)
			}
		})
	}
}

// peakOf runs the command as a process of its own.
func peakOf(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
	if report, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	return int(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) << 10
}

// writeLarge writes a case of about size bytes piece by piece: a process that once
// had it all in memory would pass that peak on to its child.
func writeLarge(t *testing.T, path, dtype string, elem, size int) (tensors int) {
	t.Helper()
	const heads, group, dim = 4, 2, 128
	keys := size / (2 * heads * dim * elem)
	kv, q := keys*heads*dim*elem, heads*group*dim*elem
	header := fmt.Sprintf(`{"q":{"dtype":"%[1]s","shape":[1,%[2]d,1,%[3]d],"data_offsets":[0,%[4]d]},`+
		`"k":{"dtype":"%[1]s","shape":[1,%[5]d,%[6]d,%[3]d],"data_offsets":[%[4]d,%[7]d]},`+
		`"v":{"dtype":"%[1]s","shape":[1,%[5]d,%[6]d,%[3]d],"data_offsets":[%[7]d,%[8]d]}}`,
		dtype, heads*group, dim, q, heads, keys, q+kv, q+2*kv)
	for len(header)%8 != 0 {
		header += " "
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	w.WriteString(header)
	for i := range (q + 2*kv) / elem {
		x := float64(i%31-15) / 16 // a number that every type holds
		switch elem {
		case 2:
			// The upper half of a float32 of such few bits, moved to binary16's place.
			bits := math.Float32bits(float32(x))
			half := uint16(bits >> 16 & 0x8000)
			if x != 0 {
				half |= uint16((bits>>23&0xff)-112)<<10 | uint16(bits>>13&0x3ff)
			}
			w.Write(binary.LittleEndian.AppendUint16(nil, half))
		case 4:
			w.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
		default:
			w.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	}
	if err := w.Flush(); err != nil { // which has kept the first error
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return q + 2*kv
}
