//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func makePipe(path string) error { return unix.Mkfifo(path, 0o600) }

// TestAClosedPipeEndsIt: one that nobody reads ends the command as it ends any other in a pipeline, without a word; what
// it was to write is there by then.
func TestAClosedPipeEndsIt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.safetensors")
	for _, args := range [][]string{{"explain"}, {"plan", "--lens=1x10000", "--json"}, {"run", realLayer, "-o", out}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = w, &stderr
		_ = cmd.Run() // the status tells
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
			t.Errorf("%v: %v, stderr %q, want SIGPIPE and no word", args, cmd.ProcessState, &stderr)
		}
	}
	if n := entries(t, filepath.Dir(out)); n != 1 {
		t.Errorf("run left %d files, want its output alone", n)
	}
}
