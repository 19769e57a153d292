package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "rewrite the texts in testdata")

// golden compares a report with the text in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), got); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

func TestExplainText(t *testing.T) {
	told := want(t, exitDone, "explain").stdout
	fits(t, told)
	// The numbers that the derivation prints.
	for _, printed := range []string{
		"1.368", "1.591", "0.368 + 1.000", "1.368 + 0.223", "[0.231 0.629 0.140]", "11.756", // 2.3.2
		"0.1200", "0.1650", "0.1600", "1.9560", "2.9510", // 2.4.1
		"[0.100 0.200 0.300 0.400]", "[0.304 0.302 0.300 0.298]", "[0.269 0.403 0.233 0.366]",
		"0.135", "0.0498", "0.00674", // 2.4.2
	} {
		if !strings.Contains(told, printed) {
			t.Errorf("explain does not arrive at %s", printed)
		}
	}
	golden(t, "explain.txt", told)
}

// The same numbers as data, to the places that the derivation prints.
func TestExplainNumbers(t *testing.T) {
	examples := objects(t, want(t, exitDone, "explain", "--json").stdout)
	if len(examples) != 4 {
		t.Fatalf("%d examples, want 4", len(examples))
	}
	near := cmpopts.EquateApprox(0, 5e-4)
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("%s (-derivation +explain):\n%s", what, diff)
		}
	}
	column := func(example int, name string) []any {
		var x []any
		for _, step := range examples[example]["steps"].([]any) {
			x = append(x, step.(map[string]any)[name])
		}
		return x
	}
	same("2.3.2 m", []any{1.0, 2.0, 2.0}, column(0, "m"))
	same("2.3.2 d", []any{1.0, 1.368, 1.591}, column(0, "l"))
	same("2.3.2 softmax", []any{0.231, 0.629, 0.140}, examples[0]["softmax"])
	same("2.3.2 sum", 11.756, examples[0]["sum_of_exp"])
	same("2.4.1 s", []any{0.12, 0.165, 0.16}, column(1, "score"))
	same("2.4.1 m", []any{0.12, 0.165, 0.165}, column(1, "m"))
	same("2.4.1 l", []any{1.0, 1.956, 2.951}, column(1, "l"))
	o := []any{0.269, 0.403, 0.233, 0.366}
	same("2.4.1 o", []any{[]any{0.1, 0.2, 0.3, 0.4}, []any{0.304, 0.302, 0.3, 0.298}, o}, column(1, "o"))
	same("2.4.2 local", 0.135, examples[2]["local"])
	same("2.4.2 factor", 0.0498, examples[2]["factor"])
	same("2.4.2 moved", 0.00674, examples[2]["moved"])
	same("2.4.2 merged", o, examples[3]["o"])
	for _, e := range examples {
		if e["ok"] != true || e["difference"].(float64) > 1e-15 {
			t.Errorf("%v: the direct form differs by more than 1e-15", e)
		}
	}
}

func TestExplainFile(t *testing.T) {
	golden(t, "explain-sinks.txt", want(t, exitDone, "explain", filepath.Join(attentionDir, "sinks_window_128.safetensors"), "--splits=3").stdout)
}

// Every golden file's rows come out the same merged and direct, and like the file's own LSE.
func TestExplainGolden(t *testing.T) {
	files, err := caseFiles([]string{attentionDir, capturedDir})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := file.path
		for _, splits := range []string{"--splits=1", "--splits=7", "--splits=1000000"} {
			x := objects(t, want(t, exitDone, "explain", path, splits, "--json").stdout)[0]
			if x["ok"] != true {
				t.Errorf("%s %s: %v", path, splits, x)
			}
		}
		fits(t, want(t, exitDone, "explain", path).stdout)
	}
}

// Rows of all heads and queries, with every rule in force.
func TestExplainRows(t *testing.T) {
	path := goodFile().write(t, filepath.Join(t.TempDir(), "rules.safetensors"))
	for _, seq := range []string{"--seq=0", "--seq=1"} {
		for _, head := range []string{"--head=0", "--head=1", "--head=3"} {
			for _, query := range []string{"--query=0", "--query=1", "--query=2"} {
				want(t, exitDone, "explain", path, seq, head, query)
			}
		}
	}
}

// A file without what there would be to explain is refused as that, and not with a
// flag that nobody gave.
func TestExplainNothing(t *testing.T) {
	for name, change := range map[string]func(*testFile){
		"no sequences": func(f *testFile) {
			f.put("q", 0, 4, 3, 4)
			f.put("k", 0, 2, 5, 4)
			f.put("v", 0, 2, 5, 3)
			delete(f.tensors, "lens")
			delete(f.tensors, "mask")
		},
		"no queries": func(f *testFile) {
			f.put("q", 2, 4, 0, 4)
			delete(f.tensors, "mask")
		},
	} {
		f := goodFile()
		change(f)
		path := f.write(t, filepath.Join(t.TempDir(), "empty.safetensors"))
		refuses(t, []string{path, name}, "explain", path)
		if told := call("explain", path).errs; strings.Contains(told, "--") {
			t.Errorf("%q speaks of a flag that was not given", told)
		}
	}
}

// Flags about a file are not ignored where there is none.
func TestExplainFlagsWantAFile(t *testing.T) {
	for _, flag := range []string{"--seq=0", "--head=4", "--query=0", "--splits=4"} {
		refuses(t, []string{flag[:strings.Index(flag, "=")], "FILE"}, "explain", flag)
	}
}
