package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// excerpt is a block of a document, and the command printed under it that makes it.
var excerpt = regexp.MustCompile("(?m)^```\n((?:[^`].*\n|\n)+)```\n\n    go run ./cmd/flashdec (.*)$")

// omission is the line of an excerpt that stands for what is left out.
const omission = "⋮"

// TestHowItWorksSaysWhatIsPrinted: every line of an excerpt is printed by the command
// under it, right after the one above it; what is left out between is marked.
func TestHowItWorksSaysWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-works.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..") // where readers run them
	found := excerpt.FindAllStringSubmatch(string(page), -1)
	if blocks := strings.Count(string(page), "\n```\n") / 2; len(found) != blocks || blocks == 0 {
		t.Errorf("%d blocks, %d with a command", blocks, len(found))
	}
	for _, e := range found {
		printed := strings.Split(want(t, exitDone, strings.Fields(e[2])...).stdout, "\n")
		left := true // out, between the line before and the next one
		for _, line := range strings.Split(strings.TrimSuffix(e[1], "\n"), "\n") {
			if line == omission {
				left = true
				continue
			}
			at := slices.Index(printed, line)
			if at < 0 || at > 0 && !left {
				t.Errorf("flashdec %s does not print, or not there: %s", e[2], line)
				continue
			}
			printed, left = printed[at+1:], false
		}
	}
}

// TestDocumentedCommandsRun runs the other commands that the documents of this verb's
// pictures name.
func TestDocumentedCommandsRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-works.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir("../..")
	ran := 0
	for _, c := range regexp.MustCompile(`(?m)^    go run ./cmd/flashdec (.*)$`).FindAllStringSubmatch(string(page), -1) {
		args := strings.Fields(c[1])
		for i, arg := range args {
			if arg == "page.html" || arg == "trace.svg" {
				args[i] = dir + "/" + arg
				want(t, exitDone, args...)
				if info, err := os.Stat(args[i]); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", arg, err)
				}
				ran++
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d commands write pictures, want 2", ran)
	}
}

// command is a call of flashdec in a document: an indented line, or a piece of text in
// code letters. What follows in the shell is not its own.
var command = regexp.MustCompile("(?m)(?:^    (?:go run \\./cmd/)?|`)flashdec ([a-z]+ [^`>|#\n]*)")

// TestDocumentedFlagsExist: every command line of the documents is one that flashdec
// takes, and every flag that they name is one of some verb's.
func TestDocumentedFlagsExist(t *testing.T) {
	parser, err := newParser(&interrupt{}, newTerminal(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{"help": true}
	for _, verb := range parser.Model.Leaves(true) {
		for _, flag := range verb.Flags {
			flags[flag.Name], flags["no-"+flag.Name] = true, true
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	parsed := 0
	for _, page := range append(pages, "../../README.md", "../../bench/results/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range command.FindAllStringSubmatch(string(text), -1) {
			args := words(strings.ReplaceAll(strings.ReplaceAll(c[1], " LIST", " 9"), " T ", " f16 ")) // of placeholders
			if strings.Contains(c[1], "…") || len(args) < 2 && args[0] != "explain" && args[0] != "info" {
				continue // a form, or a verb alone
			}
			if _, err := parser.Parse(args); err != nil {
				t.Errorf("%s: flashdec %s: %v", page, c[1], err)
			}
			parsed++
		}
		for _, flag := range regexp.MustCompile("`--([a-z][a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			if !flags[flag[1]] {
				t.Errorf("%s: --%s is no flag of any verb", page, flag[1])
			}
		}
	}
	if parsed < 20 {
		t.Errorf("%d commands are parsed, want those of all documents", parsed)
	}
}

// words are the words of a command line, of which some may stand in double quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
