package gguf

import (
	"os"
	"runtime"
	"testing"
)

// memoryPerByte bounds what parsing may allocate: a vocabulary of empty strings takes 8 bytes each in
// the file and 16 here, and the shortest pair 13 bytes and a place in a map.
const memoryPerByte = 24

// allocated is how many bytes f allocates. Others may allocate meanwhile: the least of some tries counts.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// FuzzParse: no file makes the reader panic, or allocate out of proportion; what it accepts can be read.
func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile("testdata/quantised.gguf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(file(2, 0).tensor("b", F32, 0, 2, 3).tensor("a", Q8_0, 32, 64).body(100))
	f.Add([]byte(*file(0, 1).text("k").u32(uint32(typeArray), uint32(typeString)).u64(2).text("a").text("")))
	f.Add([]byte(*file(0, 1).text(alignmentKey).u32(uint32(typeUint32), 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file *File
		var err error
		got := allocated(func() { file, err = Parse(data) })
		if limit := uint64(4096 + memoryPerByte*len(data)); got > limit {
			t.Fatalf("%d bytes made the parser allocate %d, limit %d", len(data), got, limit)
		}
		if err != nil {
			return
		}
		for _, x := range file.Tensors {
			row := make([]float32, x.Columns())
			for _, i := range []int{0, x.Rows() - 1} {
				if err := x.Row(row, i); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
