package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

// opener makes one kind of backend.
type opener struct {
	name string
	// open returns the backend; threads is 0 for as many as GOMAXPROCS.
	open func(threads int) (backend.Backend, error)
}

// backends are what --backend can name. auto takes the first that opens: a file's
// keys and values lie in host memory, and the way to a GPU costs more than the
// decode there saves.
func backends() []opener {
	return []opener{
		{"cpu", func(threads int) (backend.Backend, error) { return cpu.New(cpu.Options{Threads: threads}), nil }},
		{"cuda", openCUDA},
	}
}

func openCUDA(threads int) (backend.Backend, error) {
	if threads != 0 {
		return nil, fmt.Errorf("--threads is %d, but only the CPU has threads to choose", threads)
	}
	return cuda.Open(cuda.Options{})
}

// backendNames is the choice that --backend offers.
func backendNames() string {
	names := []string{"auto"}
	for _, b := range backends() {
		names = append(names, b.name)
	}
	return strings.Join(names, ",")
}

// openBackend opens the backend of that name, or for auto the first that opens.
func openBackend(name string, threads int) (backend.Backend, error) {
	var last error
	for _, b := range backends() {
		if name != "auto" && name != b.name {
			continue
		}
		opened, err := b.open(threads)
		if err == nil {
			return opened, nil
		}
		last = fmt.Errorf("backend %s: %w", b.name, err)
	}
	return nil, last
}

// maxThreads bounds --threads: each is a goroutine with buffers of its own.
const maxThreads = 4096

// engineFlags say how to compute, in every verb that does.
type engineFlags struct {
	Backend   string `help:"Where to compute: ${enum}; auto is the CPU." enum:"${backends}" default:"auto"`
	PageSize  int    `help:"Copy keys and values into a paged cache of N slots a page. Without it, or with 0, they are used where they lie." placeholder:"N"`
	KVDType   string `name:"kv-dtype" help:"Store keys and values as T: f32, f16, bf16, e4m3, e5m2, int8 or int4, the last four with a scale a token and head. Without it, as the file does." placeholder:"T"`
	Threads   int    `help:"Processor threads to compute on. Without it, or with 0, GOMAXPROCS (here ${threads})." placeholder:"N"`
	Invariant bool   `help:"Make a sequence's bits independent of its batch and of the number of threads."`
}

// Validate is called by kong once the flags are read.
func (f *engineFlags) Validate() error {
	if f.KVDType != "" {
		if _, err := kv.ParseDType(f.KVDType); err != nil {
			return fmt.Errorf("--kv-dtype: %w", err)
		}
	}
	if f.PageSize < 0 {
		return fmt.Errorf("--page-size is %d, want at least 1, or 0 for no pages", f.PageSize)
	}
	if f.Threads < 0 || f.Threads > maxThreads {
		return fmt.Errorf("--threads is %d, want 1 to %d, or 0 for GOMAXPROCS", f.Threads, maxThreads)
	}
	return nil
}

func (f *engineFlags) threads() int {
	if f.Threads > 0 {
		return f.Threads
	}
	return runtime.GOMAXPROCS(0)
}

// open opens the backend and an engine on it, which closes it.
func (f *engineFlags) open() (backend.Backend, *flashdec.Engine, error) {
	b, err := openBackend(f.Backend, f.Threads)
	if err != nil {
		return nil, nil, err
	}
	eng, err := flashdec.Open(flashdec.Options{Backend: b})
	return b, eng, err
}
