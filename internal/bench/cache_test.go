package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// processors is a system folder of Linux: of each processor, its caches as "level type size shared".
func processors(caches ...[]string) fstest.MapFS {
	files := fstest.MapFS{"online": &fstest.MapFile{Data: []byte("0\n")}, "cpufreq/policy0": &fstest.MapFile{}}
	for cpu, list := range caches {
		for index, cache := range list {
			for i, text := range strings.Fields(cache) {
				name := fmt.Sprintf("cpu%d/cache/index%d/%s", cpu, index, [...]string{"level", "type", "size", "shared_cpu_list"}[i])
				files[name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
	}
	return files
}

// TestLastCaches: the last level counts, an instance once, and no more instances than there are threads.
func TestLastCaches(t *testing.T) {
	core := func(i int, last string) []string {
		return []string{fmt.Sprintf("1 Data 32K %d", i), fmt.Sprintf("1 Instruction 64K %d", i), fmt.Sprintf("2 Unified 1024K %d", i), last}
	}
	shared := processors(core(0, "3 Unified 32768K 0-1"), core(1, "3 Unified 32768K 0-1"))
	two := processors(core(0, "3 Unified 32768K 0-1"), core(1, "3 Unified 32768K 0-1"), core(2, "3 Unified 65536K 2"))
	for _, c := range []struct {
		name    string
		files   fstest.MapFS
		threads int
		want    int
	}{
		{"shared by both", shared, 2, 32 << 20},
		{"one of two, the larger", two, 1, 64 << 20},
		{"both", two, 2, 96 << 20},
		{"both, and threads without one of their own", two, 100, 96 << 20},
		{"no third level", processors([]string{"1 Data 32K 0", "2 Unified 512K 0"}), 1, 512 << 10},
		{"code alone", processors([]string{"1 Instruction 32K 0"}), 1, 0},
		{"nothing", fstest.MapFS{}, 8, 0},
		{"no size", processors([]string{"3 Unified"}), 1, 0},
		{"no number", processors([]string{"3 Unified manyK 0"}), 1, 0},
		{"no unit", processors([]string{"3 Unified 32768 0"}), 1, 0},
		{"negative", processors([]string{"3 Unified -4K 0"}), 1, 0},
		{"beyond an int", processors([]string{"3 Unified 9223372036854775807K 0"}), 1, 0},
		{"no level", processors([]string{"0 Unified 4K 0"}), 1, 0},
	} {
		if got := lastCaches(c.files, c.threads); got != c.want {
			t.Errorf("%s, %d threads: %d bytes, want %d", c.name, c.threads, got, c.want)
		}
	}
}

// TestLastCachesOfThisMachine: where Linux tells of a cache, it is found.
func TestLastCachesOfThisMachine(t *testing.T) {
	_, err := os.Stat("/sys/devices/system/cpu/cpu0/cache/index0/size")
	if got := LastCaches(1); (got > 0) != (err == nil) || got > LastCaches(1<<20) {
		t.Errorf("%d bytes for one thread, %d for many, where the system tells: %t", got, LastCaches(1<<20), err == nil)
	}
}
