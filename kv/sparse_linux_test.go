package kv_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// sparse maps n bytes that cost nothing until touched.
func sparse(t *testing.T, n int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// TestOffsetsBeyond32Bits is the fault of 32-bit products: page · stride past
// 2³¹ and 2³² elements lands in another sequence's rows.
func TestOffsetsBeyond32Bits(t *testing.T) {
	if narrow {
		t.Skip("an address has 32 bits: TestStridesBeyondMemoryAreRefused says what becomes of such a view")
	}
	for _, tc := range []struct {
		name         string
		pages        []kv.PageID
		pageStride   int
		pageSize, id int
	}{
		{"576×480 elements a page", []kv.PageID{7767, 7768, 20000}, 276480, 1, 0},
		{"a batch stride of 2^30", []kv.PageID{0, 1, 2, 3, 4}, 1 << 30, 4096, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			last := int(tc.pages[len(tc.pages)-1])
			plane := kv.Plane{Type: kv.BF16, Dim: 2, PageStride: tc.pageStride, HeadStride: 2, SlotStride: 2}
			plane.Data = sparse(t, 2*(last*tc.pageStride+tc.pageSize*2))
			for i, page := range tc.pages {
				at := plane.Offset(page, 0, 0)
				if at != 2*int(page)*tc.pageStride {
					t.Fatalf("page %d begins at byte %d, want %d", page, at, 2*int(page)*tc.pageStride)
				}
				binary.LittleEndian.PutUint16(plane.Data[at:], uint16(0x3f80+i)) // distinct
			}
			view := kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: tc.pageSize, NumPages: last + 1}
			for i := range tc.pages {
				view.Seqs = append(view.Seqs, kv.Table{Pages: tc.pages[i : i+1], Len: 1})
			}
			if err := view.Validate(); err != nil {
				t.Fatal(err)
			}
			for i := range tc.pages {
				var row [2]float32
				view.Sequence(i).Key(row[:], 0, 0)
				if want := bitsToFloat(uint32(0x3f80+i) << 16); row[0] != want {
					t.Errorf("page %d reads %v, want %v", tc.pages[i], row[0], want)
				}
			}
		})
	}
}

// narrow says that an int, and so an address, has 32 bits.
const narrow = math.MaxInt == math.MaxInt32

// TestStridesBeyondMemoryAreRefused: where page · stride passes 2³¹ or 2³² elements, no product that has lost its
// upper bits makes a view fit into memory that ends before; nor one of bytes, where addresses have 32 bits.
func TestStridesBeyondMemoryAreRefused(t *testing.T) {
	for _, stride := range []int{1 << 28, 1 << 29, 1 << 30, math.MaxInt32 - 1} {
		for _, page := range []kv.PageID{1, 2, 3, 4, 7, 8, 16} {
			for _, dtype := range []kv.DType{kv.F32, kv.BF16, kv.I4} {
				plane := kv.Plane{Type: dtype, Dim: 2, PageStride: stride, HeadStride: 2, SlotStride: 2, Data: make([]byte, 1<<12)}
				if dtype == kv.I4 {
					plane.Scales = kv.Scales{Kind: kv.TensorScale, Values: []float32{1}}
				}
				view := kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: 1, NumPages: int(page) + 1, Seqs: []kv.Table{{Pages: []kv.PageID{page}, Len: 1}}}
				if err := view.Validate(); !errors.Is(err, attn.ErrShape) {
					t.Errorf("page %d of %v, %d elements apart, in 4 KiB: error %v, want ErrShape", page, dtype, stride, err)
				}
			}
		}
	}
}

// TestUntouchedPagesCostNothing: memory is taken as pages are first used, and a
// closed cache gives it back.
func TestUntouchedPagesCostNothing(t *testing.T) {
	cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: 16, NumPages: 1 << 15, KeyType: kv.F16, ValueType: kv.F16}
	if narrow {
		cfg.NumPages >>= 3
	}
	cache := open(t, cfg) // 2 GiB, or 256 MiB
	seq := cache.NewSequence()
	appendStamps(t, cfg, seq, make([]float32, 1000)...)
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	const huge = 2 << 20 // K and V may each have begun a huge page
	if used, held := cache.Stats().Bytes, resident(t, view.K.Data)+resident(t, view.V.Data); held < used || held > used+2*huge {
		t.Errorf("%d bytes are resident, want the %d of used pages, and at most two huge pages more", held, used)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	if held := resident(t, view.K.Data) + resident(t, view.V.Data); held != 0 {
		t.Errorf("the cache is closed, but %d bytes are resident", held)
	}
}

// resident is how many bytes of mapped memory the system has given.
func resident(t *testing.T, data []byte) int {
	t.Helper()
	size := os.Getpagesize()
	pages := make([]byte, (len(data)+size-1)/size)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return n * size
}

// TestTogetherFillsFromTheBeginning: caches side by side take memory as one does, however few of their pages are used,
// and give it back when the last of them is closed.
func TestTogetherFillsFromTheBeginning(t *testing.T) {
	cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: 16, NumPages: 1 << 8, KeyType: kv.F16, ValueType: kv.F16}
	caches, err := kv.NewTogether(32, cfg) // 16 MiB each
	if err != nil {
		t.Fatal(err)
	}
	used, held := 0, func() int { return 0 }
	for i, cache := range caches {
		seq := cache.NewSequence()
		appendStamps(t, cfg, seq, make([]float32, 20)...)
		used += cache.Stats().Bytes
		if i == 0 {
			view, err := cache.View(seq)
			if err != nil {
				t.Fatal(err)
			}
			held = func() int { return resident(t, view.K.Data) + resident(t, view.V.Data) }
		}
	}
	const huge = 2 << 20 // K and V may each have begun a huge page
	if n := held(); n < used || n > used+2*huge {
		t.Errorf("%d bytes are resident, want the %d of used pages, and at most two huge pages more", n, used)
	}
	for i, cache := range caches {
		if n := held(); n < used {
			t.Errorf("%d caches are closed, and %d bytes resident, want the %d of all", i, n, used)
		}
		if err := cache.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := held(); n != 0 {
		t.Errorf("all caches are closed, but %d bytes are resident", n)
	}
}
