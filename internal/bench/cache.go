package bench

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// LastCaches is how many bytes the last level of the processors' caches holds in all that so many threads reach at once:
// each instance counts once, whichever processors share it, and a thread runs on one. What is read again and again and is
// no larger is read from there, and not from memory. It is 0 where the system does not tell.
func LastCaches(threads int) int { return lastCaches(os.DirFS("/sys/devices/system/cpu"), threads) }

// lastCaches reads Linux's folders: cpu0/cache/index3 has files level, type, size ("32768K") and shared_cpu_list.
func lastCaches(system fs.FS, threads int) int {
	folders, err := fs.Glob(system, "cpu[0-9]*/cache/index[0-9]*")
	if err != nil {
		return 0
	}
	last := 0
	sizes := make(map[string]int) // of the last level so far, by who shares them
	for _, folder := range folders {
		level, size := readCache(system, folder)
		if size == 0 || level < last {
			continue
		}
		if level > last {
			last = level
			clear(sizes)
		}
		shared, err := fs.ReadFile(system, path.Join(folder, "shared_cpu_list"))
		if err == nil {
			sizes[string(shared)] = size
		}
	}
	sum := 0
	for i, size := range slices.Backward(sorted(sizes)) {
		if len(sizes)-i <= threads && size <= math.MaxInt-sum {
			sum += size
		}
	}
	return sum
}

func sorted(sizes map[string]int) []int {
	var list []int
	for _, size := range sizes {
		list = append(list, size)
	}
	slices.Sort(list)
	return list
}

// readCache is the level and the bytes of a cache that holds data, zeros of another or of what cannot be read.
func readCache(system fs.FS, folder string) (level, size int) {
	text := func(name string) string {
		data, _ := fs.ReadFile(system, path.Join(folder, name)) // an empty text is no level, and no size
		return strings.TrimSpace(string(data))
	}
	if text("type") == "Instruction" {
		return 0, 0
	}
	level, err := strconv.Atoi(text("level"))
	if err != nil || level < 1 {
		return 0, 0
	}
	kilobytes, isK := strings.CutSuffix(text("size"), "K")
	size, err = strconv.Atoi(kilobytes)
	if err != nil || !isK || size < 0 || size > math.MaxInt>>10 {
		return 0, 0
	}
	return level, size << 10
}
