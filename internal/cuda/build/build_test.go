package build

import (
	"errors"
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"
)

// TestSumsCoverWhatIsIncluded: an archive's sum changes with every source, header and header of a header, of its own
// folder and of another, with the archive and with the flags, and with nothing else; a header that is missing is an error.
func TestSumsCoverWhatIsIncluded(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	module := fstest.MapFS{
		"model/gpu/kernels.zip":             file("images"),
		"model/gpu/kernels/steps.cu":        file("#include <stdint.h>\n#include \"../../../internal/cuda/kernels/far.cuh\"\n#include \"near.cuh\"\n"),
		"model/gpu/kernels/near.cuh":        file("near"),
		"internal/cuda/kernels/far.cuh":     file("#pragma once\n  # include \"farther.cuh\"\n"),
		"internal/cuda/kernels/farther.cuh": file("#include \"far.cuh\"\n"), // in a circle
		"internal/cuda/kernels/other.cuh":   file("other"),
	}
	a := &Archive{File: "kernels.zip", Source: "kernels/steps.cu", Targets: []Target{{File: "sm_80.cubin", Flags: []string{"-O3"}}}}
	sum := func(m fstest.MapFS, a *Archive) string {
		t.Helper()
		s, err := a.Sum(m, "model/gpu")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := sum(module, a)
	for name, f := range module {
		changed := maps.Clone(module)
		changed[name] = file(string(f.Data) + "// changed\n")
		if same := sum(changed, a) == want; same != (name == "internal/cuda/kernels/other.cuh") {
			t.Errorf("%s changed: the sum is the same: %t", name, same)
		}
	}
	flags := *a
	flags.Targets = []Target{{File: "sm_80.cubin", Flags: []string{"-O2"}}}
	if sum(module, &flags) == want {
		t.Error("the flags changed, and the sum did not")
	}
	delete(module, "internal/cuda/kernels/farther.cuh")
	if _, err := a.Sum(module, "model/gpu"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a header is missing: error %v, want %v", err, fs.ErrNotExist)
	}
}
