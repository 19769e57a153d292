package flashdec_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script runs one, and returns how it ended and what it said.
func script(t *testing.T, env []string, args ...string) (code int, said string) {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), args[0]) {
			t.Fatal(err)
		}
		t.Skipf("no %s: %v", args[0], err)
	}
	var out bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the exit code tells
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestScriptsSayWhatIsMissing: a Python without packages, on a machine without a GPU, ends
// each script with one line of words, and no traceback.
func TestScriptsSayWhatIsMissing(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "--", "*.py").Output()
	if err != nil {
		t.Skip("no clone, or no git: which scripts are the project's own?")
	}
	found := strings.Fields(string(list)) // and none that lies beside them: nobody asked to run it
	if len(found) < 10 {
		t.Fatalf("scripts %q, want those of the benches and of what made the tests' data", found)
	}
	alone := map[string][]string{ // that want no package, with arguments that lead to what they do want
		filepath.Join("bench", "evidence_gpu.py"):      {"--commit=x", "--out=" + filepath.Join(t.TempDir(), "out"), "--dir=" + t.TempDir()},
		filepath.Join("bench", "peers", "llamacpp.py"): {t.TempDir()},
	}
	for _, path := range found {
		args := append([]string{"python3", "-I", "-S", "-B", path}, alone[path]...)
		code, said := script(t, nil, args...)
		if code == 0 || strings.Count(said, "\n") != 1 || strings.Contains(said, "Traceback") || !strings.HasPrefix(said, path) && !strings.Contains(said, path+": ") {
			t.Errorf("%s: exit %d, %q, want one line that says what is missing", path, code, said)
		}
	}
}

// TestRecordRefuses: bench/record.sh measures for minutes, and looks at its arguments before.
func TestRecordRefuses(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		env, args []string
		say       string
	}{
		{nil, nil, "usage: bench/record.sh NAME [LIB]"},
		{nil, []string{"a", folder, "b"}, "usage: bench/record.sh NAME [LIB]"},
		{nil, []string{""}, "NAME is ''"},
		{nil, []string{"../x"}, "NAME is '../x'"},
		{nil, []string{"--help"}, "NAME is '--help'"},
		{nil, []string{"x", folder}, "LIB is '" + folder + "', which has no libggml-cpu.so"},
		{nil, []string{"x", ""}, "LIB is ''"},
		{[]string{"FLASHDEC_SMOLLM=" + folder}, []string{"x"}, "FLASHDEC_SMOLLM is '" + folder + "', which is no file"},
		{[]string{"LLAMACPP_PYTHON=false"}, []string{"x"}, "LLAMACPP_PYTHON is 'false', which does not import llama_cpp"},
	} {
		code, said := script(t, append([]string{"FLASHDEC_SMOLLM=", "LLAMACPP_PYTHON="}, c.env...), append([]string{"sh", "bench/record.sh"}, c.args...)...)
		if code != 2 || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "bench/record.sh: "+c.say) {
			t.Errorf("%q %q: exit %d, %q, want 2 and %q", c.env, c.args, code, said, c.say)
		}
	}
}
