package simd

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

//go:generate go run -C gen . ..
//go:generate go run -C gen ./arm64 ..

// The levels, best last. A level is an instruction set that kernels are written in.
const (
	Generic = "generic" // plain Go, on any CPU
	AVX2    = "avx2"    // amd64 with AVX2, FMA, F16C and BMI2
	AVX512  = "avx512"  // amd64 with AVX-512 F, BW, DQ and VL, and all of the above
	VNNI    = "vnni"    // amd64 with AVX-512 VNNI, VBMI and GFNI, and all of the above: for integers
	Dots    = "bf16"    // amd64 with AVX-512 BF16 that is as fast as multiply-adds, and all of the above: for bfloat16
	NEON    = "neon"    // arm64
)

// Env is the environment variable that holds the level down: "generic", "avx2",
// "avx512", "vnni" or "bf16", on arm64 "generic" or "neon", is the best that may be used,
// on a CPU that has it. It is read once, at the start. Any other name is an error of
// [CheckEnv].
const Env = "FLASHDEC_SIMD"

// Levels are the levels that this CPU has, best last, whatever [Env] says.
func Levels() []string {
	levels := []string{Generic}
	if hasNEON {
		levels = append(levels, NEON)
	}
	if hasAVX2 {
		levels = append(levels, AVX2)
	}
	if hasAVX512 {
		levels = append(levels, AVX512)
	}
	if hasVNNI {
		levels = append(levels, VNNI)
	}
	if hasDots {
		levels = append(levels, Dots)
	}
	return levels
}

// Level is the level in use: what [Scores], [Accumulate], [Softmax] and the
// conversions come from.
func Level() string {
	switch {
	case useNEON:
		return NEON
	case useDots:
		return Dots
	case useVNNI:
		return VNNI
	case useAVX512:
		return AVX512
	case useAVX2:
		return AVX2
	}
	return Generic
}

// SetLevel changes the level in use, and restore undoes that. It is for tests and
// benchmarks: kernels that were looked up before keep their level, and it must
// not run beside other calls of this package.
func SetLevel(level string) (restore func(), err error) {
	if !slices.Contains(Levels(), level) {
		return nil, fmt.Errorf("simd: level %q, want one of %q", level, Levels())
	}
	oldNEON, oldAVX2, oldAVX512, oldVNNI, oldDots := useNEON, useAVX2, useAVX512, useVNNI, useDots
	useNEON, useAVX2, useAVX512, useVNNI, useDots = atMost(level)
	return func() { useNEON, useAVX2, useAVX512, useVNNI, useDots = oldNEON, oldAVX2, oldAVX512, oldVNNI, oldDots }, nil
}

// atMost says which instruction sets a level lets in: all, where it is not a level.
func atMost(level string) (neon, avx2, avx512, vnni, dots bool) {
	switch level {
	case Generic:
		return false, false, false, false, false
	case NEON:
		return true, false, false, false, false
	case AVX2:
		return false, true, false, false, false
	case AVX512:
		return false, true, true, false, false
	case VNNI:
		return false, true, true, true, false
	case Dots:
		return false, true, true, true, true
	}
	return true, true, true, true, true
}

// CheckEnv is the error of an [Env] that names no level of the architecture.
func CheckEnv() error { return checkEnv(env) }

func checkEnv(level string) error {
	if level != "" && !slices.Contains(architecture, level) {
		return fmt.Errorf("%s is %q, want a level that this CPU has: %s", Env, level, strings.Join(Levels(), ", "))
	}
	return nil
}

// env is what [Env] said at the start; envNEON and the others are what it lets in.
var (
	env                                           = os.Getenv(Env)
	envNEON, envAVX2, envAVX512, envVNNI, envDots = atMost(env)
)

// The instruction sets in use.
var (
	useNEON   = hasNEON && envNEON
	useAVX2   = hasAVX2 && envAVX2
	useAVX512 = hasAVX512 && envAVX512
	useVNNI   = hasVNNI && envVNNI
	useDots   = hasDots && envDots
)
