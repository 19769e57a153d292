package main

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/tensorfile"
)

const realLayer = "../../testdata/real/layer09.safetensors"

func TestRunFieldNames(t *testing.T) {
	line := objects(t, want(t, exitDone, "run", realLayer, "--json", "--threads=1", "--kv-dtype=bf16", "-o", filepath.Join(t.TempDir(), "o.npz")).stdout)[0]
	wanted := []string{
		"answer_err", "answer_judged", "answer_lse_err", "answer_nonfinite", "attention", "backend", "device", "file", "infinite_rows", "items", "kernel",
		"kv_bytes", "kv_dtype", "limit", "lse_err", "max_abs_err", "nan_rows", "nonfinite", "ok", "output", "page_size", "reason", "rows", "rules",
		"seconds", "seconds_first", "splits", "steps", "threads", "threads_woken", "unconverted_err", "unconverted_nonfinite", "units", "width",
	}
	if diff := cmp.Diff(wanted, slices.Sorted(maps.Keys(line))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	// bfloat16 keeps 8 bits: the price is seen, and is no failure.
	if e := line["unconverted_err"].(float64); e < 1e-4 || e > 1e-1 || line["ok"] != true {
		t.Errorf("%v, want ok and an error of bfloat16's size beside the unconverted", line)
	}
}

// The attention of a real model: after "said the", layer 9 looks at other "the"s.
func TestRunShowsTheTokens(t *testing.T) {
	told := want(t, exitDone, "run", realLayer, "--splits=3").stdout
	fits(t, told)
	for _, words := range []string{
		"smollm2-135m-instruct layer 9", "3 splits", "9 items", "The newest token, “ the”,", "1377  6: 14.5%", "o'clock in[ the] morning", "✓",
	} {
		if !strings.Contains(told, words) {
			t.Errorf("run says nothing of %q:\n%s", words, told)
		}
	}
	if strings.Contains(told, "✗") {
		t.Errorf("a check failed:\n%s", told)
	}
}

// Weights are those of the softmax: over few keys, they are all shown and add up.
func TestRunWeightsAddUp(t *testing.T) {
	f := goodFile()
	delete(f.tensors, "sinks")
	delete(f.tensors, "mask")
	line := objects(t, want(t, exitDone, "run", f.write(t, filepath.Join(t.TempDir(), "few.safetensors")), "--json").stdout)[0]
	sum := 0.0
	for _, a := range line["attention"].([]any) {
		sum += a.(map[string]any)["weight"].(float64)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("weights add up to %v, want 1: %v", sum, line["attention"])
	}
}

func TestRunOutputRoundTrip(t *testing.T) {
	dir := t.TempDir()
	input := goodFile()
	path := input.write(t, filepath.Join(dir, "in.safetensors"))
	for _, name := range []string{"out.safetensors", "out.npz"} {
		output := filepath.Join(dir, name)
		want(t, exitDone, "run", path, "-o", output)
		f, err := tensorfile.Open(output)
		if err != nil {
			t.Fatal(err)
		}
		// What was written is in the input's order: as the input's answer it passes.
		answered := goodFile()
		for _, tensor := range f.Tensors {
			tensor.Data = slices.Clone(tensor.Data)
			answered.tensors[tensor.Name] = tensor
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		line := objects(t, want(t, exitDone, "run", answered.write(t, filepath.Join(dir, "answered.safetensors")), "--json").stdout)[0]
		if line["answer_err"] != 0.0 || line["answer_lse_err"] != 0.0 {
			t.Errorf("%s: %v, want the very same numbers", name, line)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v (%v), want two inputs and two outputs, and no temporary file", entries, err)
	}
}

func TestRunUnwritableOutput(t *testing.T) {
	dir := t.TempDir()
	path := goodFile().write(t, filepath.Join(dir, "in.safetensors"))
	nowhere := filepath.Join(dir, "no", "such", "folder.npz")
	text := filepath.Join(dir, "out.txt")
	folder := filepath.Join(dir, "folder.npz")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses(t, []string{nowhere, "cannot be written", "no such file"}, "run", path, "-o", nowhere)
	refuses(t, []string{text, ".safetensors or .npz"}, "run", path, "-o", text)
	refuses(t, []string{folder, "directory"}, "run", path, "-o", folder)
	refuses(t, []string{path, "input"}, "run", path, "-o", path)
	pipe := filepath.Join(dir, "pipe.npz")
	if err := makePipe(pipe); err == nil { // not every system has them
		refuses(t, []string{pipe, "no regular file"}, "run", path, "-o", pipe)
		if info, err := os.Stat(pipe); err != nil || info.Mode().IsRegular() {
			t.Errorf("the pipe is %v (%v), want a pipe still", info, err)
		}
	}
	if os.Getuid() == 0 {
		return // to whom every folder is writable
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	refuses(t, []string{locked, "permission denied"}, "run", path, "-o", filepath.Join(locked, "out.npz"))
}

// A bad input leaves what lies at the output's place, and leaves nothing beside it.
func TestRunKeepsTheOldOutput(t *testing.T) {
	dir := t.TempDir()
	output := filepath.Join(dir, "out.safetensors")
	if err := os.WriteFile(output, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := goodFile()
	f.metadata["window"] = "0"
	refuses(t, []string{"window"}, "run", f.write(t, filepath.Join(dir, "in.safetensors")), "-o", output)
	if data, err := os.ReadFile(output); err != nil || string(data) != "old" {
		t.Errorf("the output is %q (%v), want what it was", data, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v (%v), want the input and the old output only", entries, err)
	}
}

// No sequences, no queries, no keys: nothing to do is done.
func TestRunNothing(t *testing.T) {
	for name, dims := range map[string][3]int{"sequences": {0, 3, 5}, "queries": {2, 0, 5}, "keys": {2, 3, 0}} {
		t.Run(name, func(t *testing.T) {
			f := &testFile{map[string]tensorfile.Tensor{}, nil}
			f.put("q", dims[0], 4, dims[1], 4)
			f.put("k", dims[0], 2, dims[2], 4)
			f.put("v", dims[0], 2, dims[2], 3)
			path := f.write(t, filepath.Join(t.TempDir(), "nothing.safetensors"))
			for _, pages := range []string{"--page-size=0", "--page-size=2"} {
				want(t, exitDone, "run", path, pages)
				want(t, exitDone, "verify", path, pages, "--splits=all")
			}
			want(t, map[bool]int{true: exitDone, false: exitBadInput}[name == "keys"], "explain", path)
		})
	}
}

// Text in a file cannot steer the terminal.
func TestRunPrintsNoControls(t *testing.T) {
	f := goodFile()
	f.metadata["name"] = "\x1b[2Jgone\a"
	f.metadata["text"] = "\x1b]0;title\x07"
	f.metadata["pieces"] = `["\u001b[31m", "b", "c", "d", "\u0007"]`
	path := f.write(t, filepath.Join(t.TempDir(), "hostile.safetensors"))
	for _, verb := range []string{"run", "explain"} {
		if r := want(t, exitDone, verb, path); strings.ContainsAny(r.stdout, "\x1b\a") {
			t.Errorf("%s prints controls: %q", verb, r.stdout)
		}
	}
}

// Of a GPU, run tells what is true of it: the processor's threads have no part.
func TestRunTellsTheDevice(t *testing.T) {
	gpu := backend.Info{Name: "cuda", Device: "NVIDIA H200", Kernel: "sm_90a", Width: 132}
	if n := threadsOf(gpu); n != 0 {
		t.Errorf("%d threads of a GPU, want none", n)
	}
	if n := threadsOf(backend.Info{Name: "cpu", Width: 7}); n != 7 {
		t.Errorf("%d threads of the processor, want 7", n)
	}
	for wanted, r := range map[string]runReport{
		"cuda, NVIDIA H200, 132 items at once, sm_90a kernels": {Backend: "cuda", Device: "NVIDIA H200", Kernel: "sm_90a", Width: 132},
		"cpu, EPYC, 1 thread, avx2 kernels":                    {Backend: "cpu", Device: "EPYC", Kernel: "avx2", Threads: 1, Width: 1},
		"cpu, 2 threads, generic kernels":                      {Backend: "cpu", Kernel: "generic", Threads: 2, Width: 2},
	} {
		if got := r.where(); got != wanted {
			t.Errorf("it ran on %q, want %q", got, wanted)
		}
	}
}

// What a cache stores is told of each half, with the bytes of its scales.
func TestRunTellsWhatIsStored(t *testing.T) {
	f := goodFile()
	for name, dtype := range map[string]tensorfile.DType{"k": tensorfile.F16, "v": tensorfile.BF16} {
		x := f.tensors[name]
		f.tensors[name] = tensorfile.Tensor{DType: dtype, Shape: x.Shape, Data: make([]byte, len(x.Data)/2)}
	}
	path := f.write(t, filepath.Join(t.TempDir(), "halves.safetensors"))
	const rows = 2 * (5 + 3) // KV heads, keys of both sequences
	for _, c := range []struct {
		dtype, told string
		bytes       int
	}{
		{"", "f16/bf16", rows * 2 * (4 + 3)},
		{"f32", "f32", rows * 4 * (4 + 3)},
		{"int8", "int8", rows * (4 + 4 + 3 + 4)},
		{"int4", "int4", rows * (2 + 4 + 2 + 4)},
	} {
		r := objects(t, want(t, exitDone, "run", path, "--json", "--kv-dtype="+c.dtype, "--page-size=2").stdout)[0]
		if r["kv_dtype"] != c.told || r["kv_bytes"] != float64(c.bytes) {
			t.Errorf("--kv-dtype=%s: %v of %v bytes, want %s of %d", c.dtype, r["kv_dtype"], r["kv_bytes"], c.told, c.bytes)
		}
	}
}

// A case that is computed in steps says so, and gives the reason of the first.
func TestStepsAreTold(t *testing.T) {
	if line := (&runReport{Steps: 3, Reason: "why"}).splitsLine(); line != "3 steps one after the other, to bound memory; in the first: why" {
		t.Errorf("%q", line)
	}
}

// TestRunTakesTheMedianOfShortDecodes: one that something disturbs is one of many; a long one is timed once.
func TestRunTakesTheMedianOfShortDecodes(t *testing.T) {
	for _, c := range []struct {
		takes  []float64
		median float64
		times  int
	}{
		{[]float64{1e-3, 9e-3, 1e-3, 1e-3, 2e-3, 1e-4, 1e-4, 1e-3, 1e-3}, 1e-3, 9},
		{[]float64{15e-3, 1e-3, 2e-3, 3e-3}, 2.5e-3, 4},
		{[]float64{0.5}, 0.5, 1},
	} {
		times := 0
		median, err := medianTime(func() (float64, error) { times++; return c.takes[times-1], nil })
		if err != nil || median != c.median || times != c.times {
			t.Errorf("%v: %v, %v after %d decodes, want %v after %d", c.takes, median, err, times, c.median, c.times)
		}
	}
	broken := errors.New("broken")
	if _, err := medianTime(func() (float64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want the decode's", err)
	}
}
