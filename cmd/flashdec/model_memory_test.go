//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Where there is no memory for the context that a model was made for, the error says
// how much it takes, which flag bounds it, and what fits: which then does.
func TestContextThatDoesNotFit(t *testing.T) {
	if underRace() {
		t.Skip("the race detector takes more addresses than a process has here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen2")); err != nil {
		t.Fatal(err)
	}
	const tokens = 1 << 30
	rewrite(t, filepath.Join(dir, "config.json"), `"max_position_embeddings": 512`, fmt.Sprintf(`"max_position_embeddings": %d`, tokens))
	ids := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(ids, []byte("1,2,3"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"generate", dir, "--ids=1,2", "--max-tokens=1"},
		{"logits", dir, ids, "-o", filepath.Join(t.TempDir(), "logits.npz")},
		{"perplexity", dir, ids, "--window=2"},
	} {
		told := withAddresses(t, exitBadInput, args...)
		for _, word := range []string{"1073741824 tokens", "(the model's context)", "412.3 GB as f16"} {
			if !strings.Contains(told, word) || strings.Count(told, "\n") != 1 {
				t.Errorf("%s: told %q, want one line that says %q", args, told, word)
			}
		}
		fits := regexp.MustCompile(`--max-context (\d+) fits`).FindStringSubmatch(told)
		if fits == nil {
			t.Fatalf("%s: told %q, want a context that fits", args, told)
		}
		withAddresses(t, exitDone, append(args, "--max-context="+fits[1])...)
		const tokenBytes = 384
		if n, _ := strconv.ParseUint(fits[1], 10, 64); n < 1<<10 || n*tokenBytes > addresses {
			t.Errorf("%s: %d tokens of %d bytes are said to fit in %d bytes", args, n, tokenBytes, uint64(addresses))
		}
	}
	told := withAddresses(t, exitBadInput, "generate", dir, "--ids=1,2", "--max-context=1073741823")
	if !strings.Contains(told, "1073741823 tokens") || !strings.Contains(told, "(--max-context)") {
		t.Errorf("told %q, want the flag and its tokens", told)
	}
}

// addresses is how many bytes of them a process has in these tests: whatever the machine, less than one layer's keys
// of the context that does not fit.
const addresses = 64 << 30

// withAddresses runs the command as a process that has no more of them, which is to end with a code, and returns
// what it told.
func withAddresses(t *testing.T, code int, args ...string) (told string) {
	t.Helper()
	shell := fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, addresses>>10)
	cmd := exec.Command("sh", append([]string{"-c", shell, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
	report, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%s: %v, want exit code %d\n%s", args, err, code, report)
	}
	return string(report)
}
