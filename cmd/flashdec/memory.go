package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// freeMemory is how many bytes can be used without others being written out to disk, as
// far as the system tells: proc_meminfo(5), MemAvailable. Where it does not tell,
// nothing is too much.
func freeMemory() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt
	}
	return availableIn(string(text))
}

// availableIn finds it in the text of /proc/meminfo.
func availableIn(text string) int {
	for line := range strings.Lines(text) {
		var kB int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kB); err == nil && kB <= math.MaxInt>>10 {
			return kB << 10
		}
	}
	return math.MaxInt
}
