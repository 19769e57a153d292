package main

import (
	"os"
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
