package simd

// Level names the kernels in use: "generic", or the instruction set of the
// assembly.
func Level() string { return "generic" }
