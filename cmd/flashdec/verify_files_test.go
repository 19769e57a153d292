package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVerifyFolders(t *testing.T) {
	dir := t.TempDir()
	goodFile().write(t, filepath.Join(dir, "a.safetensors"))
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "b"), 0o700), os.Mkdir(filepath.Join(dir, ".git"), 0o700)); err != nil {
		t.Fatal(err)
	}
	goodFile().write(t, filepath.Join(dir, "b", "b.npz"))
	for name, data := range map[string]string{"notes.txt": "not a case", ".hidden.npz": "nor this", ".git/c.npz": "nor this"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := objects(t, want(t, exitDone, "verify", dir, "--json").stdout)
	if len(lines) != 3 || lines[2]["total"] != 2.0 {
		t.Errorf("%v, want two files and the total", lines)
	}
	// One bad file among good ones: what could not be read comes before what failed.
	bad := filepath.Join(dir, "c.safetensors")
	if err := os.WriteFile(bad, []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := want(t, exitBadInput, "verify", dir, "--json")
	lines = objects(t, r.stdout)
	if e, _ := lines[2]["error"].(string); lines[2]["ok"] != false || !strings.Contains(e, bad) || lines[3]["failed"] != 1.0 {
		t.Errorf("%v, want the bad file's error and one failure", lines)
	}
	if fields := slices.Sorted(maps.Keys(lines[2])); !slices.Equal(fields, []string{"error", "file", "ok"}) {
		t.Errorf("of a file that cannot be read it tells %v, want nothing that was not measured", fields)
	}
	if !strings.Contains(r.errs, bad) || strings.Count(r.errs, "\n") != 1 {
		t.Errorf("stderr is %q, want the bad file in a line", r.errs)
	}
	if told := want(t, exitBadInput, "verify", dir).stdout; !strings.Contains(told, "FAIL  "+bad) || !strings.Contains(told, "3 files, 1 failed") {
		t.Errorf("%q, want the bad file's error and the sum", told)
	}
	wrong := spoiled(t, "scale_one.safetensors", "out", set(70, func(x float64) float64 { return x + 1e-3 }))
	want(t, exitBadInput, "verify", wrong, bad)
	want(t, exitCheckFailed, "verify", wrong, dir+"/a.safetensors")
	// Nothing but bad files is bad input.
	r = want(t, exitBadInput, "verify", bad, bad+"x", "--json")
	if strings.Count(r.errs, "\n") != 1 || objects(t, r.stdout)[2]["failed"] != 2.0 {
		t.Errorf("%q and %q, want a line on stderr and two failures", r.errs, r.stdout)
	}
}

// TestVerifyTellsFilesApart: two of the same name in two folders, and a long one in a pipe; on a terminal, by its end. An
// error says how many could not be read.
func TestVerifyTellsFilesApart(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(dir, "a.npz"), filepath.Join(dir, "below", "a.npz")}
	for _, path := range files {
		goodFile().write(t, path)
	}
	told := want(t, exitDone, "verify", dir).stdout
	for _, path := range files {
		if strings.Count(told, "ok    "+path+" ") != 1 {
			t.Errorf("%q, want a line of %s", told, path)
		}
	}
	lines := strings.Split(told, "\n")
	for _, line := range lines[1:3] {
		if at := strings.Index(lines[0], "out "); len(line) < at || line[at-2:at] != "  " || line[at] == ' ' {
			t.Errorf("in a pipe, the numbers of %q are not below their names in %q", line, lines[0])
		}
	}
	r := fileReport{File: files[1], OK: true}
	if line := r.line(nameColumns); !strings.HasPrefix(line, "ok    …") || !strings.Contains(line, "below/a.npz ") && filepath.Separator == '/' {
		t.Errorf("%q, want the end of the name", line)
	}
	errs := want(t, exitBadInput, "verify", dir+"1", dir+"2", dir+"3", dir).errs
	if !strings.Contains(errs, dir+"1") || !strings.Contains(errs, "nor could 2 more files be read") {
		t.Errorf("%q, want the first of three, and how many more", errs)
	}
}

// TestFilesThatAreNoCasesAreSkipped: a model's weights in a folder are not judged, and counted apart; a file that
// is named, or has some of a case's tensors, is no such file.
func TestFilesThatAreNoCasesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	goodFile().write(t, filepath.Join(dir, "a.safetensors"))
	weights := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(goldenModels + "qwen2/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(weights, data, 0o600); err != nil {
		t.Fatal(err)
	}
	told := want(t, exitDone, "verify", dir).stdout
	for _, words := range []string{"skip  " + weights + ": no attention case", "1 file, 0 failed, 1 skipped, "} {
		if !strings.Contains(told, words) {
			t.Errorf("%q, want it to say %q", told, words)
		}
	}
	lines := objects(t, want(t, exitDone, "verify", dir, "--json").stdout)
	skipped := map[string]any{"file": weights, "skipped": errNoCase.Error()}
	total := map[string]any{"total": 1.0, "failed": 0.0, "skipped": 1.0}
	if diff := cmp.Diff([]map[string]any{skipped, total}, lines[1:]); diff != "" {
		t.Errorf("lines after the case's (-want +got):\n%s", diff)
	}
	// Nothing was verified where nothing is a case.
	if errs := want(t, exitBadInput, "verify", goldenModels+"qwen2").errs; !strings.Contains(errs, "qwen2: the files there have none of the tensors q, k and v") {
		t.Errorf("a folder without a case: %q", errs)
	}
	refuses(t, []string{weights, errNoCase.Error()}, "verify", weights)
	want(t, exitBadInput, "verify", dir, weights)
	half := goodFile()
	delete(half.tensors, "k")
	half.write(t, filepath.Join(dir, "half.safetensors"))
	if r := want(t, exitBadInput, "verify", dir); !strings.Contains(r.errs, "tensor k: is missing") || !strings.Contains(r.stdout, "2 files, 1 failed, 1 skipped") {
		t.Errorf("%q and %q, want the half case to fail", r.errs, r.stdout)
	}
}
