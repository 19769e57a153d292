package cpu

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// deviceName is the processor's own name where the system tells it, else the
// architecture's. It reads a file, which every plan would wait for: a backend
// asks once.
func deviceName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if value = strings.TrimSpace(value); ok && strings.TrimSpace(key) == "model name" && value != "" {
			return value
		}
	}
	return runtime.GOARCH
}
