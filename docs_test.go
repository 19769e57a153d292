package flashdec_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
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
			there, err := os.ReadFile(filepath.Join(filepath.Dir(page), found[1]))
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s points to %s, which is not there", page, found[1])
			} else if found[2] != "" && !slices.Contains(headings(string(there)), found[2]) {
				t.Errorf("%s points to the heading %s of %s, which is not there", page, found[2], found[1])
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

// publicNames are the names that a package's users can write: "Open", "Engine.Decode" and,
// of fields, "Options.Threads".
func publicNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addNames(names, spec)
				}
			}
		}
	}
	return names
}

// receiver is "T." of a method of T, and "" of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// addNames adds what a declaration of constants, variables or a type names.
func addNames(names map[string]bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				names[spec.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// TestDocsPublicNames: names of the library that the documents have in code letters,
// such as kv.View or Sequence.Forget, are there.
func TestDocsPublicNames(t *testing.T) {
	packages := map[string]map[string]bool{"flashdec": publicNames(t, ".")}
	for _, dir := range []string{"attn", "kv", "plan", "backend", "cuda", "model", "model/gpu", "token", "sample", "gguf", "tensorfile"} {
		packages[filepath.Base(dir)] = publicNames(t, dir)
	}
	name := regexp.MustCompile("`(?:([a-z]+)\\.)?([A-Z]\\w*(?:\\.[A-Z]\\w*)?)(?:\\{[^`]*)?`")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			of, known := packages[found[1]]
			switch {
			case found[1] == "" && !strings.Contains(found[2], "."), found[1] != "" && !known:
				continue // a word like any other, or another's package
			case known && !of[found[2]]:
				t.Errorf("%s names %s.%s, which is not there", page, found[1], found[2])
			case !known && !anyHas(packages, found[2]):
				t.Errorf("%s names %s, which no package has", page, found[2])
			}
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("%d names are checked, want those of all documents", checked)
	}
}

func anyHas(packages map[string]map[string]bool, name string) bool {
	for _, names := range packages {
		if names[name] {
			return true
		}
	}
	return false
}
