package simd

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// atLevels runs f at each level of assembly. A level that the CPU's flags promise
// must be there; one that they do not is skipped with the reason.
func atLevels(t *testing.T, f func(t *testing.T)) {
	for _, level := range []string{AVX2, AVX512} {
		t.Run("level="+level, func(t *testing.T) {
			requireLevel(t, level)
			restore, err := SetLevel(level)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			f(t)
		})
	}
}

func requireLevel(t *testing.T, level string) {
	t.Helper()
	if slices.Contains(Levels(), level) {
		return
	}
	switch {
	case runtime.GOARCH != "amd64":
		t.Skipf("%s is a level of amd64; this is %s", level, runtime.GOARCH)
	case level == AVX2 && !cpu.X86.HasAVX2:
		t.Skip("this CPU has no AVX2")
	case level == AVX512 && !cpu.X86.HasAVX512BW:
		t.Skip("this CPU has no AVX-512 (F, BW, DQ, VL)")
	}
	t.Fatalf("this CPU should have level %s, but has only %q", level, Levels())
}

func TestSetLevel(t *testing.T) {
	before := Level()
	for _, level := range Levels() {
		restore, err := SetLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		if Level() != level {
			t.Errorf("level is %s, want %s", Level(), level)
		}
		restore()
	}
	if _, err := SetLevel("sse9"); err == nil {
		t.Error("level sse9 was accepted")
	}
	if Level() != before {
		t.Errorf("level %s was not restored: %s", before, Level())
	}
}
