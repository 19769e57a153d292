// Package nv binds the part of NVIDIA's driver API that this project uses, by
// dlopen: no cgo, no CUDA toolkit. It has no policy; names and meanings are the
// driver's.
//
// A program that imports this package is linked dynamically. Nothing is loaded
// before [Open].
package nv
