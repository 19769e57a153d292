//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// limited runs the command where no file may have a byte: what a full disk does to it.
func limited(dir string, args ...string) (code int, stderr string) {
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -f 0 && exec "$0" "$@"`, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
	for _, name := range cacheVariables {
		cmd.Env = append(cmd.Env, name+"="+dir)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), prose(&errs)
}

// TestFullDisk: every verb that writes a file says that it could not and which, in a line; what was there before
// stays, and nothing is left beside it. Where much is computed for it, Linux tells how much has no room before that.
func TestFullDisk(t *testing.T) {
	const tooLarge = " cannot be written: file too large\n"
	text := tokensFile(t, "5 17 3 5 17 3")
	trace := []string{"trace", "--lens=512", "--q-heads=4", "--kv-heads=1", "--head-dim=32", "--rounds=1"}
	bench := []string{"bench", "--suite=window", "--mb=1", "--match=1024", "--rounds=1", "--threads=1"}
	for _, c := range []struct {
		out  string // flag and name
		args []string
	}{
		{"-o=out.safetensors", []string{"run", realLayer}},
		{"-o=out.npz", []string{"run", realLayer}},
		{"-o=out.safetensors", []string{"logits", goldenModels + "qwen2", text}},
		{"-o=out.npz", []string{"logits", goldenModels + "qwen2", text}},
		{"--html=out.html", []string{"explain", realLayer}},
		{"-o=out.json", trace},
		{"-o=out.svg", trace},
		{"--plot=out.svg", bench},
		{"--plot=out.png", bench},
	} {
		dir := t.TempDir()
		flag, name, _ := strings.Cut(c.out, "=")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, errs := limited(t.TempDir(), append(c.args, flag, path)...)
		early := runtime.GOOS == "linux" && (c.args[0] == "run" || c.args[0] == "logits")
		if early != strings.Contains(errs, ": output of ") {
			t.Errorf("%s to %s: %q, told before the work %t, want %t", c.args[0], name, errs, !early, early)
		}
		if code != exitBadInput || !strings.HasPrefix(errs, "flashdec: "+path+": ") || !strings.HasSuffix(errs, tooLarge) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s to %s: exit %d, %q, want %d and a line that says why not", c.args[0], name, code, errs, exitBadInput)
		}
		if got, err := os.ReadFile(path); string(got) != "before" || entries(t, dir) != 1 {
			t.Errorf("%s to %s: the file holds %.20q, %v, among %d, want what it held, alone", c.args[0], name, got, err, entries(t, dir))
		}
	}
	dir := t.TempDir()
	code, errs := limited(dir, "tune", "--seconds=0.2", "--group=1", "--head-dim=32", "--threads=1")
	if code != exitBadInput || !strings.HasPrefix(errs, "flashdec: what was found cannot be kept: "+dir) || !strings.HasSuffix(errs, tooLarge) {
		t.Errorf("tune: exit %d, %q", code, errs)
	}
	if err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("tune left %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
