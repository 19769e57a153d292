package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestQuotePath(t *testing.T) {
	for path, wanted := range map[string]string{
		"a.npz":                   "a.npz",
		"a folder/b c.npz":        "a folder/b c.npz",
		`a"b\c`:                   `a"b\c`,
		"漢字/é.npz":                "漢字/é.npz",
		"ok a\nFAIL b":            `"ok a\nFAIL b"`,
		"\x1b[2J":                 `"\x1b[2J"`,
		"a\xffb":                  `"a\xffb"`,
		`"a"`:                     `"\"a\""`,
		"right\u202eto left":      `"right\u202eto left"`,
		"c\u0085, a C1 character": `"c\u0085, a C1 character"`,
	} {
		if got := quotePath(path); got != wanted {
			t.Errorf("%q is shown as %s, want %s", path, got, wanted)
		}
	}
}

// TestOneLine: an error is one line without a byte that a terminal obeys, whatever
// names are in it, and each of several errors is told.
func TestOneLine(t *testing.T) {
	plain, hostile := errors.New("plain"), errors.New("open a\nb\x1b[2J\u202e\xff: no such file")
	const escaped = `open a\nb\x1b[2J\u202e\xff: no such file`
	for _, tc := range []struct {
		err  error
		want string
	}{
		{plain, "plain"},
		{errors.New(`say "é" to C:\temp`), `say "é" to C:\temp`},
		{hostile, escaped},
		{errors.Join(plain, hostile), "plain; " + escaped},
		{errors.Join(errors.Join(hostile), nil, plain), escaped + "; plain"},
		{fmt.Errorf("%w, and %w", plain, hostile), "plain, and " + escaped},
		{fmt.Errorf("tensorfile: %w", plain), "plain"},
	} {
		if got := oneLine(tc.err); got != tc.want {
			t.Errorf("%q is told as %s, want %s", tc.err, got, tc.want)
		}
	}
	r := want(t, exitBadInput, "run", "no\nsuch\x1b[31m.npz")
	if strings.Count(r.errs, "\n") != 1 || strings.Contains(r.errs, "\x1b") {
		t.Errorf("stderr is %q, want one line without the name's escape", r.errs)
	}
}

// A name is one word to a shell, and the same name again.
func TestShellWord(t *testing.T) {
	for name, want := range map[string]string{
		"layer19.safetensors": "layer19.safetensors", "été/x_1.npz": "été/x_1.npz", "": "''", "-o": "./-o", "a b": "'a b'",
		"it's $HOME": `'it'\''s $HOME'`, "-a;b": "'./-a;b'", "a\nb": "'a\nb'", "*": "'*'", "~x": "'~x'",
	} {
		if got := shellWord(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// A terminal is shown what it can print of a model's text, line breaks and tabs
// included; a file gets all of it.
func TestStreamKeepsATerminalSafe(t *testing.T) {
	const text = "a\x1b[2J\n\tb\u202e\a é"
	for watched, want := range map[bool]string{false: text, true: "a�[2J\n\tb�� é"} {
		var out strings.Builder
		term := newTerminal(&out, io.Discard)
		term.watched = watched
		term.stream(text)
		if out.String() != want {
			t.Errorf("watched %t: %q, want %q", watched, out.String(), want)
		}
	}
}

// fullWriter takes nothing.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestFullOutput: a verb whose report cannot be written fails, and says so in the same words whatever its form.
func TestFullOutput(t *testing.T) {
	plan := []string{"plan", "--lens=131072", "--q-heads=32", "--kv-heads=8", "--head-dim=128"}
	for _, args := range [][]string{
		plan, append(plan, "--json"),
		{"run", realLayer},
		{"run", realLayer, "--json"},
		{"verify", realLayer, "--json"},
		{"explain"},
		{"explain", "--json"},
		{"info"},
		{"generate", goldenModels + "qwen2", "--ids=1", "--max-tokens=1"},
		{"generate", goldenModels + "qwen2", "--ids=1", "--max-tokens=1", "--json"},
		{"--help"},
	} {
		var errs strings.Builder
		code := run(context.Background(), args, fullWriter{}, &errs)
		if want := "flashdec: writing to standard output: no space left\n"; code != exitBadInput || errs.String() != want {
			t.Errorf("%s: exit %d, %q, want %d and %q", args, code, errs.String(), exitBadInput, want)
		}
	}
}
