package tune

import (
	"fmt"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
)

// Class is the shapes that constants are looked for: what a key and a value cost.
type Class struct {
	Dim   int // of keys and values
	Group int // query heads a KV head
	DType kv.DType
}

func (c Class) String() string {
	return fmt.Sprintf("head dim %d, groups of %d, %s", c.Dim, c.Group, c.DType)
}

// KeyOf is the key of a class on a backend.
func KeyOf(info backend.Info, keyDim, valueDim, group int, types [2]kv.DType) Key {
	k := Key{
		Device: info.Device, Backend: info.Name, Kernel: info.Kernel, Threads: info.Width,
		KeyDim: keyDim, ValueDim: valueDim, Group: group, KVBits: types[0].Bits(),
	}
	if types[1].Bits() != k.KVBits {
		k.KVBits = 0 // no class that is measured
	}
	return k
}

// heads are the KV heads of the steps that are measured.
var heads = [...]int{1, 8}

const (
	shortest = 512
	// longest is how long the longest step is at least, and longestShare how many
	// keys a thread it has: beyond, all the constants tried cut it the same.
	longest      = 8192
	longestShare = 512
	// maxBytes is how large a step may be: larger ones are left out.
	maxBytes = 256 << 20
	// placesOfLargest is at how many places the largest step is laid out, as far as
	// maxBytes goes, and smaller ones in the same memory: one place would be read
	// from the processors' caches.
	placesOfLargest = 16
)

// arenaBytes is the memory that a class is measured in.
func (c Class) arenaBytes(threads int) int {
	largest := 0
	for _, x := range c.cases(threads) {
		largest = max(largest, x.StoredBytes())
	}
	return min(placesOfLargest*largest, maxBytes)
}

// The constants that are tried, beside those built in.
var (
	minKeys     = [...]int{64, 128, 256, 512, 1024, 2048}
	helperWorks = [...]int{1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22}
)

// constants are a point of the grid; zeros are what is built in.
type constants struct{ minKeys, helperWork int }

// candidates are the points, the one built in first. A single thread has no
// helpers.
func candidates(threads int) []constants {
	list := []constants{{}}
	works := helperWorks[:]
	if threads == 1 {
		works = []int{0}
	}
	for _, work := range works {
		for _, keys := range minKeys {
			list = append(list, constants{keys, work})
		}
	}
	return list
}

// cases are the steps of a class: where the constants matter.
func (c Class) cases(threads int) []*bench.Case {
	var list []*bench.Case
	for _, h := range heads {
		for n := shortest; n <= max(longest, longestShare*threads); n *= 2 {
			x := &bench.Case{
				Name:  fmt.Sprintf("%d KV heads, %d keys", h, n),
				Heads: h * c.Group, KVHeads: h, Dim: c.Dim, Lens: []int{n}, DType: c.DType,
			}
			if x.StoredBytes() <= maxBytes {
				list = append(list, x)
			}
		}
	}
	return list
}
