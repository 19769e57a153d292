package flashdec_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/flashdec/flashdec"

// mayImport is the architecture: which of the project's packages each package
// may import. A package that is not listed here may import none.
var mayImport = map[string][]string{
	"attn":                {},
	"internal/simd":       {},
	"internal/filemap":    {},
	"internal/whole":      {},
	"internal/explain":    {},
	"internal/plainjson":  {},
	"tensorfile":          {"internal/filemap", "internal/whole"},
	"sample":              {},
	"gguf":                {"internal/filemap", "internal/simd"},
	"internal/network":    {"", "attn", "kv", "gguf"},
	"model":               {"", "attn", "kv", "gguf", "tensorfile", "internal/filemap", "internal/network", "internal/plainjson", "internal/simd"},
	"model/modeltest":     {"gguf", "model", "tensorfile"},
	"model/gpu":           {"attn", "kv", "backend", "gguf", "cuda", "internal/cuda/build", "internal/network", "internal/nv"},
	"internal/jinja":      {},
	"token":               {"internal/jinja", "internal/plainjson"},
	"kv":                  {"attn", "internal/simd"},
	"plan":                {"attn"},
	"backend":             {"attn", "kv", "plan"},
	"backend/backendtest": {"attn", "kv", "plan", "backend"},
	"internal/cpu":        {"attn", "kv", "plan", "backend", "internal/filemap", "internal/simd"},
	"internal/nv":         {},
	"internal/cuda/build": {},
	"internal/cuda/gen":   {"internal/cuda/build"},
	"internal/cuda":       {"attn", "kv", "plan", "backend", "internal/nv", "internal/cuda/build"},
	"cuda":                {"attn", "kv", "plan", "backend", "internal/cuda", "internal/nv"},
	"":                    {"attn", "kv", "plan", "backend", "internal/cpu"},
	"internal/tune":       {"", "kv", "plan", "backend", "internal/bench", "internal/cpu", "internal/gpubench", "internal/plainjson", "internal/whole"},
	"internal/timeline":   {"plan", "backend"},
	"internal/bench":      {"", "attn", "kv", "backend", "internal/plainjson", "internal/simd"},
	"internal/gpubench":   {"", "kv", "plan", "backend", "internal/bench", "internal/cuda", "internal/nv"},
	"internal/chart":      {"internal/bench"},
	"bench/table":         {"kv", "internal/bench", "internal/chart", "internal/whole"},
	"cmd/flashdec":        {"", "model", "model/gpu", "token", "sample", "internal/bench", "internal/chart", "internal/cpu", "internal/explain", "internal/filemap", "internal/gpubench", "internal/plainjson", "attn", "kv", "plan", "backend", "cuda", "internal/simd", "internal/timeline", "internal/tune", "internal/whole", "tensorfile"},
}

// onlyIn names packages outside the standard library that are the business of
// one package alone.
var onlyIn = map[string]string{
	"github.com/ebitengine/purego":   "internal/nv",
	"github.com/mmcloughlin/avo":     "", // the generator's own module, not this one
	"github.com/alecthomas/kong":     "cmd/flashdec",
	"github.com/jedib0t/go-pretty":   "cmd/flashdec",
	"gonum.org/v1/plot":              "internal/chart",
	"github.com/schollz/progressbar": "cmd/flashdec",
	"github.com/dlclark/regexp2":     "token",
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("package %q has no place in the architecture", name)
		}
		for _, imp := range p.Imports {
			if rest, ours := strings.CutPrefix(imp, module); ours {
				if rest = strings.TrimPrefix(rest, "/"); !slices.Contains(allowed, rest) {
					t.Errorf("%q imports %q, which it may not", name, rest)
				}
			}
			for dep, owner := range onlyIn {
				if (imp == dep || strings.HasPrefix(imp, dep+"/")) && name != owner {
					t.Errorf("%q imports %s, which is the business of %q alone", name, dep, owner)
				}
			}
		}
	}
}

// TestLibraryStaysStatic: who computes on the CPU gets a binary that needs no
// dynamic loader, so neither the root package nor package model may reach purego.
func TestLibraryStaysStatic(t *testing.T) {
	for _, p := range list(t) {
		if (p.ImportPath == module || p.ImportPath == module+"/model") && slices.Contains(p.Deps, "github.com/ebitengine/purego") {
			t.Errorf("package %s depends on purego", p.ImportPath)
		}
	}
}
