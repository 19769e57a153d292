// Package cuda is the backend on one NVIDIA GPU: kernels compiled ahead of time
// and embedded, loaded through the driver, with no cgo and no CUDA toolkit.
//
// A [Step] is a decode step whose plan lies on the device: it can be launched
// over any number of layers, on device memory of the caller's, and captured in a
// graph. [Backend.Decode] is a Step made for one launch on host memory.
//
// kernels/ holds the sources. After a change there, run
//
//	go generate ./internal/cuda
//
// with nvcc 13.0 on the PATH (PyPI: nvidia-cuda-nvcc, nvidia-cuda-crt,
// nvidia-nvvm, nvidia-cuda-runtime and nvidia-cuda-cccl, all 13.0). A test fails
// when sources and embedded builds differ.
//
// There are two builds: kernels.zip computes, and traced.zip, of fewer kernels, tells
// besides which multiprocessor ran a block and when (kernels/trace.cuh). It is loaded by
// the first decode whose launch asks for a trace; others run code without a mark.
package cuda

//go:generate go run ./gen
