package simd

import (
	"fmt"
	"os"
	"strings"
)

//go:generate go run -C gen . ..

// The levels, best last. A level is an instruction set that kernels are written in.
const (
	Generic = "generic" // plain Go, on any CPU
	AVX2    = "avx2"    // amd64 with AVX2, FMA, F16C and BMI2
	AVX512  = "avx512"  // amd64 with AVX-512 F, BW, DQ and VL, and all of the above
)

// Env is the environment variable that holds the level down: "generic", "avx2"
// or "avx512" is the best that may be used, on a CPU that has it. It is read once,
// at the start. A name that is none of them lets in all; [CheckEnv] tells.
const Env = "FLASHDEC_SIMD"

// Levels are the levels that this CPU has, best last, whatever [Env] says.
func Levels() []string {
	levels := []string{Generic}
	if hasAVX2 {
		levels = append(levels, AVX2)
	}
	if hasAVX512 {
		levels = append(levels, AVX512)
	}
	return levels
}

// Level is the level in use: what [Scores], [Accumulate], [Softmax] and the
// conversions come from.
func Level() string {
	switch {
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
	avx2, avx512, known := atMost(level)
	if !known || avx2 && !hasAVX2 || avx512 && !hasAVX512 {
		return nil, fmt.Errorf("simd: level %q, want one of %q", level, Levels())
	}
	oldAVX2, oldAVX512 := useAVX2, useAVX512
	useAVX2, useAVX512 = avx2, avx512
	return func() { useAVX2, useAVX512 = oldAVX2, oldAVX512 }, nil
}

// atMost says which instruction sets a level lets in.
func atMost(level string) (avx2, avx512, known bool) {
	switch level {
	case Generic:
		return false, false, true
	case AVX2:
		return true, false, true
	case AVX512:
		return true, true, true
	}
	return true, true, false
}

// CheckEnv is the error of an [Env] that names no level.
func CheckEnv() error { return checkEnv(env) }

func checkEnv(level string) error {
	if _, _, known := atMost(level); level != "" && !known {
		return fmt.Errorf("%s is %q, want a level that this CPU has: %s", Env, level, strings.Join(Levels(), ", "))
	}
	return nil
}

// env is what [Env] said at the start; envAVX2 and envAVX512 are what it lets in.
var (
	env                   = os.Getenv(Env)
	envAVX2, envAVX512, _ = atMost(env)
)

// The instruction sets in use.
var (
	useAVX2   = hasAVX2 && envAVX2
	useAVX512 = hasAVX512 && envAVX512
)
