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
	"unicode"
)

// fences are the fenced blocks of a page: those marked go, and those marked nothing.
var fences = regexp.MustCompile("(?ms)^```(go)?\n(.*?)^```$")

// runIn runs a program inside the module, so that it finds the package.
func runIn(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp(".", ".program")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
	if err != nil {
		t.Errorf("the program ends with %v", err)
	}
	return string(out)
}

// TestEmbeddingProgram puts the pieces of docs/embedding.md together, runs them, and
// compares what they print with what stands under them.
func TestEmbeddingProgram(t *testing.T) {
	page, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	var program, says strings.Builder
	for _, block := range fences.FindAllStringSubmatch(string(page), -1) {
		if block[1] == "go" {
			program.WriteString(block[2] + "\n")
		} else {
			says.WriteString(block[2])
		}
	}
	if got := runIn(t, program.String()); got != says.String() {
		t.Errorf("the program prints\n%s, the page says\n%s", got, says.String())
	}
}

// TestDocsLinks: what the documents point to is there, files and headings.
func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`(?:\]\(|<img src=")([^)#"\s]*)(#[^)\s]*)?[)"]`)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "bench/results/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			if found[1] == "" {
				if !slices.Contains(headings(string(text)), found[2]) {
					t.Errorf("%s points to its heading %s, which is not there", page, found[2])
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s points to %s, which is not there", page, found[1])
			}
		}
	}
}

// headings are the places of a page's headings: lower case, blanks as dashes, and of
// what is no letter or digit only these kept.
func headings(page string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		kept := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])
		all = append(all, "#"+kept)
	}
	return all
}

// TestDocsNames: files and tests that the documents name in code letters are there.
func TestDocsNames(t *testing.T) {
	path := regexp.MustCompile("`((?:[a-z0-9_-]+/)+[A-Za-z0-9_.*-]*)`")
	test := regexp.MustCompile(`\b(Test[A-Z]\w+)`)
	var code strings.Builder
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, "_test.go") {
			var text []byte
			text, err = os.ReadFile(name)
			code.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range path.FindAllStringSubmatch(string(text), -1) {
			if there, err := filepath.Glob(found[1]); err != nil || len(there) == 0 {
				t.Errorf("%s names %s, which is not there", page, found[1])
			}
		}
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(code.String(), "func "+found[1]+"(") {
				t.Errorf("%s names %s, which is no test", page, found[1])
			}
		}
	}
}
