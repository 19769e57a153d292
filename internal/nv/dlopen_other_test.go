//go:build !linux || !(amd64 || arm64)

package nv

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestOtherSystems: where there is no binding, opening says so, and nothing ends
// the process.
func TestOtherSystems(t *testing.T) {
	_, err := Open()
	if !errors.Is(err, ErrNoGPU) || !strings.Contains(err.Error(), runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("got %v, want ErrNoGPU and the system's name", err)
	}
}
