package simd

import (
	"slices"
	"strings"
	"testing"
)

// TestCheckEnv: a level that does not exist, or not on this architecture, is a fault
// that names those that do, not the best level without a word.
func TestCheckEnv(t *testing.T) {
	for _, level := range append([]string{""}, architecture...) {
		if err := checkEnv(level); err != nil {
			t.Errorf("%q: %v", level, err)
		}
	}
	for _, level := range []string{"bogus", "AVX2", " ", "avx512 ", AVX2, AVX512, VNNI, NEON} {
		if slices.Contains(architecture, level) {
			continue
		}
		err := checkEnv(level)
		if err == nil || !strings.Contains(err.Error(), Env) || !strings.Contains(err.Error(), strings.Join(Levels(), ", ")) {
			t.Errorf("%q: error %v, want one that names %s and the levels %q", level, err, Env, Levels())
		}
	}
}
