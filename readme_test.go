package flashdec_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeProgram runs the README's program and compares what it prints with
// what the README says it prints.
func TestReadmeProgram(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```\n\n```\n(.*?)```").FindStringSubmatch(readme(t))
	if blocks == nil {
		t.Fatal("README.md has no program with its output")
	}
	dir, err := os.MkdirTemp(".", ".readme") // inside the module, so that it finds the package
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(blocks[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
	if err != nil || string(out) != blocks[2] {
		t.Errorf("the program prints (%v)\n%s, the README says\n%s", err, out, blocks[2])
	}
}

// TestReadmeEnvironment compares the README's table of environment variables
// with the names that code and tests spell, FLASHDEC_TEST_… aside: those are
// between a test and its own child process.
func TestReadmeEnvironment(t *testing.T) {
	name := regexp.MustCompile(`"(FLASHDEC_[A-Z]+)`)
	var read []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || filepath.Base(path) == "readme_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			read = append(read, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(readme(t), "## Build tags and environment")
	table, _, _ = strings.Cut(table, "\n## ")
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(FLASHDEC_[A-Z]+)").FindAllStringSubmatch(table, -1) {
		told = append(told, row[1])
	}
	read = slices.DeleteFunc(read, func(name string) bool { return name == "FLASHDEC_TEST" })
	for _, list := range []*[]string{&read, &told} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(read, told) {
		t.Errorf("the code reads %v, the README tells of %v", read, told)
	}
}
