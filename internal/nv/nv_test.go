//go:build linux && (amd64 || arm64)

package nv

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

func TestMissingLibrary(t *testing.T) {
	_, err := load("libcuda-that-is-not-there.so.1")
	if !errors.Is(err, ErrNoGPU) || err.Error() != "no GPU: libcuda-that-is-not-there.so.1 not found" {
		t.Fatalf("got %v", err)
	}
}

// TestStructLayout holds the structs that cross into the driver to cuda.h's layout.
func TestStructLayout(t *testing.T) {
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"launchConfig.block", unsafe.Offsetof(launchConfig{}.block), 12},
		{"launchConfig.sharedBytes", unsafe.Offsetof(launchConfig{}.sharedBytes), 24},
		{"launchConfig.stream", unsafe.Offsetof(launchConfig{}.stream), 32},
		{"launchConfig.attributes", unsafe.Offsetof(launchConfig{}.attributes), 40},
		{"launchConfig.count", unsafe.Offsetof(launchConfig{}.count), 48},
		{"launchConfig", unsafe.Sizeof(launchConfig{}), 56},
		{"launchAttribute.value", unsafe.Offsetof(launchAttribute{}.value), 8},
		{"launchAttribute", unsafe.Sizeof(launchAttribute{}), 72},
	} {
		if f.got != f.want {
			t.Errorf("%s is at or of %d bytes, want %d", f.name, f.got, f.want)
		}
	}
}

func TestEveryFunctionHasItsName(t *testing.T) {
	for i, name := range names {
		if !strings.HasPrefix(name, "cu") {
			t.Errorf("function %d has the name %q", i, name)
		}
	}
}

// buildFake compiles testdata/fake.c and returns the library's path.
func buildFake(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the driver is used on Linux only")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build the fake libcuda.so with")
	}
	lib := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", lib, "testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

func openFake(t *testing.T) (*Context, *Stream) {
	t.Helper()
	d, err := load(buildFake(t))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	var s *Stream
	if err := ctx.Do(func() error { s, err = ctx.NewStream(); return err }); err != nil {
		t.Fatal(err)
	}
	return ctx, s
}

func TestNoDevice(t *testing.T) {
	lib := buildFake(t)
	t.Setenv("FAKE_CUDA_NO_DEVICE", "1")
	_, err := load(lib)
	want := "no GPU: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
	if !errors.Is(err, ErrNoGPU) || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestDevice(t *testing.T) {
	ctx, _ := openFake(t)
	if name, err := ctx.Device().Name(); err != nil || name != "Fake 40" {
		t.Errorf("name %q, %v", name, err)
	}
	if n, err := ctx.Device().Attribute(MultiprocessorCount); err != nil || n != 16040 {
		t.Errorf("attribute %d, %v", n, err)
	}
	if v, err := ctx.driver.Version(); err != nil || v != 13000 {
		t.Errorf("version %d, %v", v, err)
	}
	if _, err := ctx.driver.Device(1); !errors.Is(err, ErrNoGPU) {
		t.Errorf("device 1 of one: %v", err)
	}
}

func TestMemory(t *testing.T) {
	ctx, s := openFake(t)
	p, err := ctx.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	in, out := []int32{1, -2, 3}, make([]int32, 3)
	if err := Upload(s, p, in); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(p+16, p, 12); err != nil {
		t.Fatal(err)
	}
	if err := Download(s, out, p+16); err != nil || out[0] != 1 || out[1] != -2 || out[2] != 3 {
		t.Errorf("came back as %v, %v", out, err)
	}
	if err := s.Fill32(p, 7, 2); err != nil {
		t.Fatal(err)
	}
	if err := Download(s, out, p); err != nil || out[0] != 7 || out[1] != 7 || out[2] != 3 {
		t.Errorf("filled to %v, %v", out, err)
	}
	if err := ctx.Free(p); err != nil {
		t.Error(err)
	}
}

func TestOutOfMemorySaysWhatIsFree(t *testing.T) {
	ctx, _ := openFake(t)
	_, err := ctx.Alloc(1 << 30)
	if !Is(err, OutOfMemory) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"asked for 1073741824 bytes", "1048576 are free", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestLaunch(t *testing.T) {
	ctx, s := openFake(t)
	m, err := ctx.LoadModule([]byte{0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Function("absent"); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_NOT_FOUND") {
		t.Errorf("absent function: %v", err)
	}
	f, err := m.Function("sum")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ctx.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	params := &struct {
		out  Pointer
		a, b int32
	}{p, 40, 2}
	geometry := Launch{Grid: Dim3{128, 3, 1}, Block: Dim3{256, 1, 1}, SharedBytes: 1234, Cluster: 16, Overlap: true}
	graph, err := s.Capture(func() error { return f.Launch(s, geometry, unsafe.Pointer(params)) })
	if err != nil {
		t.Fatal(err)
	}
	if err := graph.Launch(s); err != nil {
		t.Fatal(err)
	}
	got := make([]int32, 8)
	if err := Download(s, got, p); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{42, 128, 3, 256, 1234, 16, 1, 1} {
		if got[i] != want {
			t.Errorf("word %d is %d, want %d", i, got[i], want)
		}
	}
	if err := graph.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestStreamAndEvents(t *testing.T) {
	ctx, s := openFake(t)
	if done, err := s.Done(); done || err != nil {
		t.Errorf("done %v, %v", done, err)
	}
	e, err := ctx.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	if ms, err := e.Since(e); err != nil || ms != 1.5 {
		t.Errorf("%v ms, %v", ms, err)
	}
	for _, err := range []error{e.Record(s), e.Synchronize(), s.Wait(e), e.Destroy(), s.Destroy(), ctx.Synchronize(), ctx.Release()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestMissingBLAS: the error says what was looked for, and where.
func TestMissingBLAS(t *testing.T) {
	empty := t.TempDir()
	for where, want := range map[string]string{
		"":            "no cuBLAS: looked for libcublas.so.13 and libcublas.so.12, on the loader's path and LD_LIBRARY_PATH",
		empty:         "no cuBLAS: looked for " + empty + "/libcublas.so.13 and " + empty + "/libcublas.so.12",
		"/no/such.so": "no cuBLAS: looked for /no/such.so",
	} {
		_, err := loadBLAS(where)
		if err == nil && where == "" {
			continue // this machine has it
		}
		if !errors.Is(err, ErrNoBLAS) || err.Error() != want {
			t.Errorf("%q: got %v, want %s", where, err, want)
		}
	}
}
