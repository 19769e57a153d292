package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/cpu"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
)

type infoCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*infoCmd) Help() string {
	return `The commit is what the Go tool noted down while building in a clone; a program that
was built with -buildvcs=false, or outside one, says unknown.

Example:

    flashdec info
`
}

// infoReport is what info prints.
type infoReport struct {
	Version  string        `json:"version"`
	Commit   string        `json:"commit"`
	Go       string        `json:"go"`
	Platform string        `json:"platform"`
	CPU      string        `json:"cpu"`
	Features []string      `json:"features"`
	Kernel   string        `json:"kernel"`
	Threads  int           `json:"threads"`
	Backends []backendInfo `json:"backends"`
}

type backendInfo struct {
	Name   string `json:"name"`
	Device string `json:"device,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Width  int    `json:"width,omitempty"`
	Error  string `json:"error,omitempty"`
}

func (cmd *infoCmd) Run(t *terminal) error {
	r := infoReport{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Features: cpuFeatures(), Kernel: simd.Level(), Threads: runtime.GOMAXPROCS(0),
	}
	r.Version, r.Commit = version()
	for _, b := range backends() {
		r.Backends = append(r.Backends, describe(b))
	}
	for _, b := range r.Backends {
		if b.Name == "cpu" {
			r.CPU = b.Device
		}
	}
	if cmd.JSON {
		return t.emit(r)
	}
	r.print(t)
	return nil
}

// describe opens a backend to ask it, and closes it again.
func describe(o opener) backendInfo {
	var b backend.Backend
	b, err := o.open(0)
	if err != nil {
		return backendInfo{Name: o.name, Error: oneLine(err)}
	}
	info := b.Info()
	described := backendInfo{Name: o.name, Device: info.Device, Kernel: info.Kernel, Width: info.Width}
	if err := b.Close(); err != nil {
		described.Error = oneLine(err)
	}
	return described
}

func (r infoReport) print(t *terminal) {
	t.printf("flashdec  %s, commit %s\n", r.Version, r.Commit)
	t.printf("built by  %s for %s\n", r.Go, r.Platform)
	t.printf("cpu       %s\n", r.CPU)
	t.printf("features  %s\n", wrapWords(r.Features, 10))
	t.printf("threads   %d (GOMAXPROCS)\n", r.Threads)
	for i, b := range r.Backends {
		label := "backends"
		if i > 0 {
			label = ""
		}
		if b.Error != "" {
			t.printf("%-8s  %s: %s\n", label, b.Name, b.Error)
			continue
		}
		t.printf("%-8s  %s: %s kernels, %d items at once\n", label, b.Name, b.Kernel, b.Width)
	}
}

// version is the module's version and the commit it was built from.
func version() (version, commit string) {
	version, commit = "(devel)", "unknown"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if v := build.Main.Version; v != "" {
		version = v
	}
	dirty := ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = " with changes"
			}
		}
	}
	return version, commit + dirty
}

// cpuFeatures are the features that kernels of any kind could use here.
func cpuFeatures() []string {
	var have []string
	for _, f := range [...]struct {
		name string
		has  bool
	}{
		{"avx", cpu.X86.HasAVX},
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"f16c", cpu.X86.HasF16C},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512dq", cpu.X86.HasAVX512DQ},
		{"avx512vnni", cpu.X86.HasAVX512VNNI},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"asimd", cpu.ARM64.HasASIMD},
		{"asimdhp", cpu.ARM64.HasASIMDHP},
		{"asimddp", cpu.ARM64.HasASIMDDP},
		{"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			have = append(have, f.name)
		}
	}
	return have
}

// wrapWords joins words into lines of the report's width, the later ones indented.
func wrapWords(words []string, indent int) string {
	var b strings.Builder
	column := indent
	for i, w := range words {
		if i > 0 && column+1+utf8.RuneCountInString(w) > columns {
			fmt.Fprintf(&b, "\n%*s", indent, "")
			column = indent
		} else if i > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(w)
		column += utf8.RuneCountInString(w)
	}
	return b.String()
}
