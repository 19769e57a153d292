package simd

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// atLevels runs f at each level of assembly that the architecture has. A level that
// the CPU's flags promise must be there; one that they do not is skipped with the
// reason.
func atLevels(t *testing.T, f func(t *testing.T)) {
	if len(architecture) == 1 {
		t.Skipf("%s has no assembly", runtime.GOARCH)
	}
	for _, level := range architecture[1:] {
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
	case level == AVX2 && !cpu.X86.HasAVX2:
		t.Skip("this CPU has no AVX2")
	case level == AVX512 && !cpu.X86.HasAVX512BW:
		t.Skip("this CPU has no AVX-512 (F, BW, DQ, VL)")
	case level == VNNI && !(cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512VBMI):
		t.Skip("this CPU has no AVX-512 VNNI and VBMI")
	case level == Dots && !hasDots: // see there: not every CPU with AVX-512 BF16
		t.Skip("this CPU has no AVX-512 BF16 that is as fast as multiply-adds")
	}
	t.Fatalf("this CPU should have level %s, but has only %q", level, Levels())
}

// TestArchitecture: the levels that the tests above run at are those that there is
// assembly for.
func TestArchitecture(t *testing.T) {
	want := []string{Generic}
	switch runtime.GOARCH {
	case "amd64":
		want = []string{Generic, AVX2, AVX512, VNNI, Dots}
	case "arm64":
		want = []string{Generic, NEON}
	}
	if !slices.Equal(architecture, want) {
		t.Errorf("the levels of %s are %q, want %q", runtime.GOARCH, architecture, want)
	}
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
