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
// when sources and embedded build differ.
package cuda

//go:generate go run ./gen
