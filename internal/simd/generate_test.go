package simd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated runs the generators' own tests, regenerates the assembly as go generate does, and
// compares. It needs the generators' modules, and says so where they cannot be had. It compiles each
// generator once, in go run's way: go test ./... would do it in another, for a package without tests.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the generators")
	}
	if out, err := inGen("mod", "download"); err != nil {
		t.Skipf("the generators' modules cannot be had: %s", out)
	}
	dir := t.TempDir()
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./arm64"}, {"run", ".", dir}, {"run", "./arm64", dir}} {
		if out, err := inGen(args...); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	fresh, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(fresh) == 0 {
		t.Fatalf("nothing was generated (%v)", err)
	}
	names := map[string]bool{}
	for _, path := range fresh {
		name := filepath.Base(path)
		names[name] = true
		compareFiles(t, path, name)
	}
	committed, err := filepath.Glob("*_a*64.s")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range committed {
		if !names[name] {
			t.Errorf("%s is not generated any more", name)
		}
	}
}

// inGen runs a go command in the generators' module, for the machine that it runs on.
func inGen(args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{args[0], "-C", "gen"}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "GOOS=", "GOARCH=")
	return cmd.CombinedOutput()
}

// compareFiles reports the first line that differs.
func compareFiles(t *testing.T, fresh, committed string) {
	t.Helper()
	got, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Errorf("%s is missing: run go generate", committed)
		return
	}
	if first, _, _ := strings.Cut(string(want), "\n"); !strings.HasPrefix(first, "// Code generated ") {
		t.Errorf("%s does not say that it is generated: %s", committed, first)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s:%d is %q, regenerated %q", committed, i+1, b[i], a[i])
			return
		}
	}
	t.Errorf("%s has %d lines, regenerated %d", committed, len(b), len(a))
}
