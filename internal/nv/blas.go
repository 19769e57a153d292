package nv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"
)

// ErrNoBLAS is wrapped by the errors of a machine without cuBLAS.
var ErrNoBLAS = errors.New("no cuBLAS")

// blasLibraries are cuBLAS's file names, the best first.
var blasLibraries = []string{"libcublas.so.13", "libcublas.so.12"}

// blasID numbers cuBLAS's functions in use.
type blasID int

const (
	blasCreate blasID = iota
	blasDestroy
	blasSetStream
	blasGemm
	numBLAS
)

var blasNames = [numBLAS]string{
	blasCreate: "cublasCreate_v2", blasDestroy: "cublasDestroy_v2", blasSetStream: "cublasSetStream_v2", blasGemm: "cublasGemmEx",
}

// BLAS is cuBLAS with a handle, for one stream at a time.
type BLAS struct {
	fn     [numBLAS]uintptr
	handle uintptr
}

// OpenBLAS loads cuBLAS and makes a handle for work in a stream. where is the library
// or its folder; "" leaves the place to the loader. It must run inside [Context.Do],
// and wraps [ErrNoBLAS] where there is none.
func OpenBLAS(s *Stream, where string) (*BLAS, error) {
	b, err := loadBLAS(where)
	if err != nil {
		return nil, err
	}
	if err := b.call(blasCreate, uintptr(unsafe.Pointer(&b.handle))); err != nil {
		return nil, err
	}
	if err := b.call(blasSetStream, b.handle, s.handle); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func loadBLAS(where string) (*BLAS, error) {
	var tried []string
	for _, path := range blasPaths(where) {
		handle, err := dlopen(path)
		if err != nil {
			tried = append(tried, path)
			continue
		}
		b := new(BLAS)
		for i, name := range blasNames {
			if b.fn[i], err = dlsym(handle, name); err != nil {
				return nil, fmt.Errorf("%w: %s has no %s", ErrNoBLAS, path, name)
			}
		}
		return b, nil
	}
	place := ", on the loader's path and LD_LIBRARY_PATH"
	if where != "" {
		place = ""
	}
	return nil, fmt.Errorf("%w: looked for %s%s", ErrNoBLAS, strings.Join(tried, " and "), place)
}

// blasPaths are what to try: a file, the names in a folder, or the names alone.
func blasPaths(where string) []string {
	info, err := os.Stat(where)
	if where == "" {
		return blasLibraries
	}
	if err != nil || !info.IsDir() {
		return []string{where}
	}
	var paths []string
	for _, name := range blasLibraries {
		paths = append(paths, filepath.Join(where, name))
	}
	return paths
}

// Element is a cudaDataType.
type Element uintptr

const (
	Float32  Element = 0  // CUDA_R_32F
	BFloat16 Element = 14 // CUDA_R_16BF
)

// Gemm is a product of row-major matrices, Y = X·Wᵀ + Beta·Y, summed in float32 and
// without TF32: X [N, K], W [M, K], Y [N, M] float32. A stride is the elements from
// row to row.
type Gemm struct {
	M, N, K                   int
	W, X, Y                   Pointer
	WStride, XStride, YStride int
	Element                   Element // of W and X
	Beta                      float32
}

const (
	opNone, opTranspose = 0, 1 // CUBLAS_OP_N, CUBLAS_OP_T
	compute32F          = 68   // CUBLAS_COMPUTE_32F
	gemmDefault         = ^uintptr(0)
)

// Multiply puts a product into the stream.
func (b *BLAS) Multiply(g *Gemm) error {
	alpha := float32(1)
	beta := g.Beta
	return b.call(blasGemm, b.handle, opTranspose, opNone, uintptr(g.M), uintptr(g.N), uintptr(g.K),
		uintptr(unsafe.Pointer(&alpha)), uintptr(g.W), uintptr(g.Element), uintptr(g.WStride),
		uintptr(g.X), uintptr(g.Element), uintptr(g.XStride),
		uintptr(unsafe.Pointer(&beta)), uintptr(g.Y), uintptr(Float32), uintptr(g.YStride), compute32F, gemmDefault)
}

// Close gives the handle back.
func (b *BLAS) Close() error { return b.call(blasDestroy, b.handle) }

// call calls a function, as [Driver.call].
//
//go:uintptrescapes
func (b *BLAS) call(f blasID, args ...uintptr) error {
	if status := callC(b.fn[f], args...); status != success {
		return fmt.Errorf("%s: cuBLAS status %d", blasNames[f], status)
	}
	return nil
}
