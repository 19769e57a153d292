package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/simd"
)

// TestMain lets the test binary be the command, for tests that need a process.
func TestMain(m *testing.M) {
	if os.Getenv("FLASHDEC_TEST_MAIN") != "" {
		main()
		return
	}
	if os.Getenv("FLASHDEC_TEST_PEER") != "" {
		answerAsPeer()
		return
	}
	os.Exit(runTests(m))
}

// runTests runs all tests with nothing tuned, whatever this user has.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "flashdec-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, name := range cacheVariables {
		if err := os.Setenv(name, dir); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// result is what one call of the command did.
type result struct {
	code         int
	stdout, errs string
}

func call(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), args, &stdout, &stderr)
	return result{code, stdout.String(), prose(&stderr)}
}

// want fails unless a call ended with a code; it returns the call.
func want(t *testing.T, code int, args ...string) result {
	t.Helper()
	r := call(args...)
	if r.code != code {
		t.Fatalf("flashdec %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, code, r.stdout, r.errs)
	}
	return r
}

// refuses fails unless a call ends with exit 2, an empty stdout, and one line on
// stderr that holds all the words.
func refuses(t *testing.T, words []string, args ...string) {
	t.Helper()
	r := want(t, exitBadInput, args...)
	if r.stdout != "" {
		t.Errorf("stdout is %q, want nothing", r.stdout)
	}
	if strings.Count(r.errs, "\n") != 1 || !strings.HasSuffix(r.errs, "\n") {
		t.Errorf("stderr is %q, want one line", r.errs)
	}
	for _, word := range words {
		if !strings.Contains(r.errs, word) {
			t.Errorf("stderr is %q, want it to say %q", r.errs, word)
		}
	}
}

// objects parses a report of one JSON object a line.
func objects(t *testing.T, stdout string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(stdout) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, object)
	}
	return all
}

// fits fails if a line of a report is wider than a terminal.
func fits(t *testing.T, report string) {
	t.Helper()
	for line := range strings.Lines(report) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("line of %d columns, want at most %d: %s", n, columns, line)
		}
	}
}

func TestHelpShowsAnExample(t *testing.T) {
	for _, verb := range []string{"run", "verify", "explain", "plan", "bench", "trace", "info", "generate", "logits", "perplexity"} {
		r := want(t, exitDone, verb, "--help")
		if !strings.Contains(r.stdout, "Example") || !strings.Contains(r.stdout, "    flashdec "+verb) {
			t.Errorf("%s --help shows no example:\n%s", verb, r.stdout)
		}
		fits(t, r.stdout)
	}
	parser, err := newParser(&interrupt{}, newTerminal(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range parser.Model.Leaves(true) {
		lines := strings.Split(strings.TrimRight(verb.Detail, "\n"), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "    ") {
			t.Errorf("%s --help: its text ends with %q, want an example", verb.Name, last)
		}
	}
	if r := want(t, exitDone); !strings.Contains(r.stdout, "Commands:") {
		t.Errorf("without arguments: %q, want the help", r.stdout)
	} else if words := strings.Join(strings.Fields(r.stdout), " "); !strings.Contains(words, "Exit codes: 0 done, 1 a check failed, 2 usage or bad input, 130 interrupted; 141 where nobody reads what it still has to print.") {
		t.Errorf("the help does not tell the exit codes:\n%s", r.stdout)
	}
	if r := want(t, exitDone, "--version"); !strings.HasPrefix(r.stdout, "flashdec ") || !strings.Contains(r.stdout, "commit") {
		t.Errorf("--version prints %q", r.stdout)
	}
}

// What a flag is when it is not given stands in its help: a placeholder such as N
// hides it.
func TestHelpTellsDefaults(t *testing.T) {
	parser, err := newParser(&interrupt{}, newTerminal(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range parser.Model.Leaves(true) {
		for _, flag := range verb.Flags {
			if flag.HasDefault && flag.PlaceHolder != "" && !strings.Contains(flag.Help, "default "+flag.Default) {
				t.Errorf("%s --%s is %s unless given, and its help does not say so: %s", verb.Name, flag.Name, flag.Default, flag.Help)
			}
		}
	}
}

// TestHelpIsAVerb, too: whoever types it means the flag.
func TestHelpIsAVerb(t *testing.T) {
	for _, verb := range []string{"", "run", "plan", "generate"} {
		flag, word := slices.DeleteFunc([]string{verb, "--help"}, isEmpty), slices.DeleteFunc([]string{"help", verb}, isEmpty)
		if want, got := want(t, exitDone, flag...).stdout, want(t, exitDone, word...).stdout; got != want || got == "" {
			t.Errorf("%q prints\n%s, want what %q does:\n%s", word, got, flag, want)
		}
	}
	refuses(t, []string{"nonsense", "run, verify, explain"}, "help", "nonsense")
}

func isEmpty(s string) bool { return s == "" }

// TestZeroIsAsNotGiven: flags that may be left out take 0 as that, and say so.
func TestZeroIsAsNotGiven(t *testing.T) {
	parser, err := newParser(&interrupt{}, newTerminal(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, verb := range parser.Model.Leaves(true) {
		for _, flag := range verb.Flags {
			if !slices.Contains([]string{"splits", "threads", "page-size", "max-context"}, flag.Name) && (flag.Name != "window" || flag.HasDefault) {
				continue
			}
			if told++; !strings.Contains(flag.Help, "Without it, or with 0, ") {
				t.Errorf("%s --%s does not say what 0 means: %s", verb.Name, flag.Name, flag.Help)
			}
		}
	}
	if told < 20 {
		t.Errorf("%d such flags, want those of all verbs", told)
	}
	lens := []string{"plan", "--lens=131072,16x63"}
	for _, c := range []struct {
		args []string
		zero []string
	}{
		{[]string{"explain", realLayer}, []string{"--splits=0"}},
		{lens, []string{"--splits=0"}},
		{lens, []string{"--window=0"}},
		{[]string{"verify", "../../testdata/golden/captured", "--threads=2"}, []string{"--splits=0", "--page-size=0"}},
		{[]string{"generate", goldenModels + "qwen2", "--ids=5,17,3", "--max-tokens=3", "--seed=1", "--temperature=1"}, []string{"--splits=0", "--threads=0", "--max-context=0"}},
	} {
		if without, with := steady(want(t, exitDone, c.args...)), steady(want(t, exitDone, append(slices.Clone(c.args), c.zero...)...)); with != without {
			t.Errorf("%v %v prints\n%s\nwithout it\n%s", c.args, c.zero, with, without)
		}
	}
}

// steady is what a call printed, but for how long it took.
func steady(r result) string {
	return regexp.MustCompile(`\d+\.\d s`).ReplaceAllString(r.stdout, "… s")
}

// TestUsageErrorsPointToTheVerb: what is wrong with a verb's flags is explained by its
// own help.
func TestUsageErrorsPointToTheVerb(t *testing.T) {
	refuses(t, []string{"missing flags: --lens=LIST (see flashdec plan --help)"}, "plan")
	refuses(t, []string{"--nonsense", "(see flashdec bench --help)"}, "bench", "--nonsense")
	refuses(t, []string{"(see flashdec --help)"}, "nonsense")
}

func TestUsage(t *testing.T) {
	const layer = "../../testdata/real/layer19.safetensors"
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"frobnicate"}, []string{"frobnicate", "run, verify, explain"}},
		{[]string{"--frobnicate"}, []string{"--frobnicate", "run, verify, explain"}},
		{[]string{"run"}, []string{"<file>"}},
		{[]string{"verify"}, []string{"<file|dir>"}},
		{[]string{"run", layer, "--frobnicate"}, []string{"--frobnicate"}},
		{[]string{"run", layer, "--backend", "abacus"}, []string{"--backend", "abacus", "cpu"}},
		{[]string{"run", layer, "--kv-dtype", "f8"}, []string{"--kv-dtype", `"f8"`, "bf16"}},
		{[]string{"run", layer, "--page-size=-1"}, []string{"--page-size", "-1"}},
		{[]string{"run", layer, "--threads=-1"}, []string{"--threads", "-1"}},
		{[]string{"run", layer, "--threads=100000"}, []string{"--threads", "100000", "4096"}},
		{[]string{"run", layer, "--splits=-1"}, []string{"--splits", "-1"}},
		{[]string{"run", layer, "--splits=many"}, []string{"--splits", "many"}},
		{[]string{"verify", layer, "--splits=-1"}, []string{"--splits", `"-1"`, "all"}},
		{[]string{"verify", layer, "--splits=some"}, []string{"--splits", `"some"`, "all"}},
		{[]string{"explain", layer, "--head=9"}, []string{layer, "--head", "9"}},
		{[]string{"explain", layer, "--seq=-1"}, []string{layer, "--seq", "-1"}},
		{[]string{"explain", layer, "--query=1"}, []string{layer, "--query", "1"}},
		{[]string{"explain", layer, "--splits=-1"}, []string{"--splits", "-1", "0 for 4"}},
		{[]string{"verify", t.TempDir()}, []string{"holds no .safetensors or .npz file"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { refuses(t, c.words, c.args...) })
	}
}

// TestUnknownLevel: a misspelt FLASHDEC_SIMD, read at the start of a process, is
// bad input to every verb.
func TestUnknownLevel(t *testing.T) {
	for _, args := range [][]string{{"info"}, {"run", "../../testdata/real/layer19.safetensors"}} {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1", simd.Env+"=bogus")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit code tells
		told := fmt.Sprintf("flashdec: FLASHDEC_SIMD is \"bogus\", want a level that this CPU has: %s\n", strings.Join(simd.Levels(), ", "))
		if code := cmd.ProcessState.ExitCode(); code != exitBadInput || stdout.Len() > 0 || stderr.String() != told {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %d and %q", args, code, &stdout, &stderr, exitBadInput, told)
		}
	}
}

// full is a standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestUnwritableStdoutIsNoSuccess(t *testing.T) {
	told := "flashdec: writing to standard output: " + os.ErrClosed.Error() + "\n"
	for _, args := range [][]string{
		{"info"},
		{"info", "--json"},
		{"explain"},
		{"explain", "--html=-"},
		{"explain", realLayer, "--html=-"},
		{"plan", "--lens=1x10000", "--json"},
		{"--help"},
		{"bench", "--suite=window", "--mb=1", "--match=1024", "--rounds=1", "--threads=1", "--csv"},
	} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, full{}, &stderr); code != exitBadInput || prose(&stderr) != told {
			t.Errorf("%v: exit %d, stderr %q, want %d and %q", args, code, &stderr, exitBadInput, told)
		}
	}
}

// TestInterrupted at the first look at the context.
func TestInterrupted(t *testing.T) {
	for _, args := range [][]string{
		{"run", "../../testdata/real/layer19.safetensors"},
		{"verify", "../../testdata/golden/attention"},
		{"generate", goldenModels + "qwen2", "--ids=1"},
		{"perplexity", goldenModels + "qwen2", goldenModels + "qwen2/io.safetensors"},
	} {
		ctx := enoughAfter(1)
		var stdout, stderr bytes.Buffer
		if code := run(ctx, args, &stdout, &stderr); code != exitInterrupted || prose(&stderr) != "flashdec: interrupted\n" {
			t.Errorf("%v: exit %d, stderr %q, want %d and one line", args, code, &stderr, exitInterrupted)
		}
		ctx.cancel()
	}
}

// underRace tells that the race detector is on, which takes time and memory.
func underRace() bool {
	build, _ := debug.ReadBuildInfo()
	return slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestNoNameOfAFileIsNoFile: a flag that names no file is told of, before any work: a script's variable may be empty.
func TestNoNameOfAFileIsNoFile(t *testing.T) {
	for _, args := range [][]string{
		{"run", realLayer, "-o", ""},
		{"run", realLayer, "--out="},
		{"explain", realLayer, "--html", ""},
		{"trace", realLayer, "-o", ""},
		{"bench", "--plot", ""},
		{"bench", "--compare="},
		{"logits", "model", "prompt", "-o", ""},
	} {
		if errs := want(t, exitBadInput, args...).errs; !strings.Contains(errs, " is empty, want the name of a file") {
			t.Errorf("%q: %q, want to be told that the name is empty", args, errs)
		}
	}
}
