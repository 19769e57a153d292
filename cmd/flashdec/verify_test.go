package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/x448/float16"

	"github.com/flashdec/flashdec/tensorfile"
)

const (
	attentionDir = "../../testdata/golden/attention"
	capturedDir  = "../../testdata/golden/captured"
)

func TestVerifyGolden(t *testing.T) {
	splits := "--splits=all"
	if underRace() {
		splits = "--splits=5" // all of them take minutes under it, and show it nothing more
	}
	for _, pages := range []int{0, 1, 16} {
		for _, invariant := range []bool{false, true} {
			t.Run(fmt.Sprintf("page_size=%d/invariant=%t", pages, invariant), func(t *testing.T) {
				r := want(t, exitDone, "verify", attentionDir, capturedDir, splits,
					fmt.Sprintf("--page-size=%d", pages), fmt.Sprintf("--invariant=%t", invariant), "--json")
				lines := objects(t, r.stdout)
				files := lines[:len(lines)-1]
				if len(files) < 20 {
					t.Fatalf("%d files, want the golden set", len(files))
				}
				for _, f := range files {
					if f["ok"] != true || f["answer_err"] == nil {
						t.Errorf("%v, want ok and an answer compared", f)
					}
				}
				total := map[string]any{"total": float64(len(files)), "failed": 0.0}
				if diff := cmp.Diff(total, lines[len(lines)-1]); diff != "" {
					t.Errorf("last line (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A cache in another type is judged by what it holds.
func TestVerifyStoredAs(t *testing.T) {
	for _, dtype := range []string{"f32", "f16", "bf16"} {
		for _, f := range objects(t, want(t, exitDone, "verify", attentionDir, capturedDir, "--kv-dtype", dtype, "--json").stdout) {
			if f["file"] != nil && f["kv_dtype"] != dtype {
				t.Errorf("%v, want it stored as %s", f, dtype)
			}
		}
	}
}

// TestVerifyTellsWhatIsNotJudged: a file's own answer is no judge of a cache that rounds, however wrong it is; that is said.
func TestVerifyTellsWhatIsNotJudged(t *testing.T) {
	wrong := spoiled(t, "two_keys.safetensors", "out", set(0, func(x float64) float64 { return x + 100 }))
	const says = "Not judged: the own out and lse of 1 file, which are of those before they were rounded; out is up to 1e+02 from them."
	for _, c := range []struct {
		dtype  string
		exit   int
		judged bool
	}{{"int8", exitDone, false}, {"int4", exitDone, false}, {"f32", exitCheckFailed, true}} {
		flag := "--kv-dtype=" + c.dtype
		told := want(t, c.exit, "verify", wrong, flag).stdout
		if _, after, said := strings.Cut(told, "\nJudged by"); said {
			fits(t, after)
		}
		if words := strings.Join(strings.Fields(told), " "); strings.Contains(words, "as "+c.dtype+" holds them. "+says) == c.judged {
			t.Errorf("%s: %s", c.dtype, told)
		}
		if line := objects(t, want(t, c.exit, "verify", wrong, flag, "--json").stdout)[0]; line["answer_judged"] != c.judged {
			t.Errorf("%s: answer_judged is %v, want %t", c.dtype, line["answer_judged"], c.judged)
		}
		if told := want(t, c.exit, "run", wrong, flag).stdout; strings.Contains(told, "answer  not judged: ") == c.judged {
			t.Errorf("%s: %s", c.dtype, told)
		}
	}
}

func TestVerifyFieldNames(t *testing.T) {
	line := objects(t, want(t, exitDone, "verify", filepath.Join(attentionDir, "two_keys.safetensors"), "--json").stdout)[0]
	names := slices.Sorted(maps.Keys(line))
	wanted := []string{
		"answer_err", "answer_judged", "answer_limit", "answer_lse_err", "answer_nonfinite", "backend", "file", "infinite_rows", "invariant", "kernel",
		"kv_dtype", "limit", "lse_err", "max_abs_err", "nan_rows", "nonfinite", "ok", "page_size", "rows", "rules", "seconds", "split_counts", "splits",
	}
	if diff := cmp.Diff(wanted, names); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if line["ok"] != true || line["backend"] != "cpu" || line["splits"] != 1.0 {
		t.Errorf("%v, want ok, by the cpu, in 1 split", line)
	}
}

// spoiled copies a golden file with one tensor changed.
func spoiled(t *testing.T, name, tensor string, change func(data []byte)) string {
	t.Helper()
	f, err := tensorfile.Open(filepath.Join(attentionDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors := slices.Clone(f.Tensors)
	for i := range tensors {
		tensors[i].Data = slices.Clone(tensors[i].Data)
		if tensors[i].Name == tensor {
			change(tensors[i].Data)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := tensorfile.Write(path, tensors, f.Metadata); err != nil {
		t.Fatal(err)
	}
	return path
}

// set returns a change of one float64 element.
func set(i int, x func(old float64) float64) func([]byte) {
	return func(data []byte) {
		old := math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		binary.LittleEndian.PutUint64(data[8*i:], math.Float64bits(x(old)))
	}
}

func TestVerifyFindsAWrongAnswer(t *testing.T) {
	same := func(x float64) float64 { return x }
	shifted := func(x float64) float64 { return x + 1e-3 }
	nan := func(float64) float64 { return math.NaN() }
	inf := func(float64) float64 { return math.Inf(1) }
	for name, c := range map[string]struct {
		tensor string
		change func([]byte)
		code   int
	}{
		"unchanged":     {"out", set(70, same), exitDone},
		"out shifted":   {"out", set(70, shifted), exitCheckFailed},
		"out NaN":       {"out", set(70, nan), exitCheckFailed},
		"out infinite":  {"out", set(255, inf), exitCheckFailed},
		"lse shifted":   {"lse", set(3, shifted), exitCheckFailed},
		"lse NaN":       {"lse", set(0, nan), exitCheckFailed},
		"lse unlimited": {"lse", set(0, inf), exitCheckFailed},
	} {
		t.Run(name, func(t *testing.T) {
			path := spoiled(t, "scale_one.safetensors", c.tensor, c.change)
			line := objects(t, want(t, c.code, "verify", path, "--json").stdout)[0]
			if line["ok"] != (c.code == exitDone) {
				t.Errorf("%v, want ok to be %t", line, c.code == exitDone)
			}
			told := want(t, c.code, "verify", path).stdout
			if strings.Contains(told, "FAIL") != (c.code != exitDone) {
				t.Errorf("%q, want it to say whether the file failed", told)
			}
			_, lines, _ := strings.Cut(told, "\n")                     // after the header, as wide as the name
			fits(t, strings.ReplaceAll(lines, filepath.Dir(path), "")) // a pipe has names whole
			want(t, c.code, "run", path)
		})
	}
}

// What a NaN in the values does is right where the reference has it too.
func TestVerifyNaNInTheRightPlace(t *testing.T) {
	f := goodFile()
	clear(f.metadata)
	delete(f.tensors, "mask")
	f.tensors["lens"] = ints("lens", 4, 5)
	v := f.tensors["v"]
	binary.LittleEndian.PutUint32(v.Data[4*3*1:], math.Float32bits(float32(math.NaN()))) // seen by two heads
	binary.LittleEndian.PutUint32(v.Data[4*3*4:], math.Float32bits(float32(math.NaN()))) // beyond lens
	path := f.write(t, filepath.Join(t.TempDir(), "nan.safetensors"))
	for _, more := range []string{"--page-size=0", "--page-size=2", "--kv-dtype=bf16"} {
		want(t, exitDone, "verify", path, "--splits=all", more)
		want(t, exitDone, "run", path, more)
	}
}

// Float64 inputs are copied before they are copied into pages: the second copy
// must not be of a first one that was given back.
func TestVerifyRoundedInPages(t *testing.T) {
	f := goodFile()
	f.put("q", 1, 2, 1, 64)
	f.put("k", 1, 1, 5000, 64)
	f.put("v", 1, 1, 5000, 64)
	f.tensors["sinks"] = wave("sinks", 2)
	for _, name := range []string{"lens", "mask", "alibi_slopes"} {
		delete(f.tensors, name)
	}
	clear(f.metadata)
	for _, name := range []string{"q", "k", "v"} {
		f.tensors[name] = double(t, f.tensors[name])
	}
	path := f.write(t, filepath.Join(t.TempDir(), "wide.safetensors"))
	for _, pages := range []string{"--page-size=0", "--page-size=1", "--page-size=100", "--page-size=100000"} {
		want(t, exitDone, "verify", path, pages)
	}
	want(t, exitDone, "verify", path, "--kv-dtype=f16")
}

// TestRowsOfNaNHaveNoLimit: a key of infinities makes a row NaN, in the direct
// softmax too, and reports stay JSON.
func TestRowsOfNaNHaveNoLimit(t *testing.T) {
	var v verdict
	v.add(verdict{rowLimit: math.NaN()})
	if v.limit() != 0 || !v.ok() {
		t.Errorf("a row of NaN: limit %v, ok %t, want 0 and true", v.limit(), v.ok())
	}
	v.add(verdict{Err: 2, share: 2, rowLimit: 1})
	if v.limit() != 1 || v.ok() {
		t.Errorf("beside a row too far off: limit %v, ok %t, want 1 and false", v.limit(), v.ok())
	}
	v.add(verdict{Err: 1, share: math.NaN(), rowLimit: math.NaN()})
	if v.ok() {
		t.Error("numbers that have no limit pass")
	}
}

// Each way to fail is told in words: where the direct softmax is far, the file's own
// answer, numbers on one side only, and the LSE where out is right.
func TestFaultsAreTold(t *testing.T) {
	answer, limit, odd := 0.5, 0.25, 2
	for want, d := range map[string]distances{
		"out is 0.2 from the direct softmax":                          {MaxAbsErr: 0.2, Limit: 0.1},
		"out is 0.5 from the file's own, want at most 0.25":           {AnswerErr: &answer, AnswerLimit: &limit},
		"3 elements NaN or infinite on one side only":                 {NonFinite: 3},
		"2 elements NaN or infinite on one side only, the file's own": {AnswerNonFinite: &odd},
		"lse is 0.3 from the direct softmax":                          {LSEErr: 0.3, Limit: 0.1},
		"lse is 0.3 from the direct softmax; 0.5 from the file's own": {LSEErr: 0.3, AnswerLSEErr: &answer},
	} {
		if told := (&fileReport{distances: d}).fault(); told != want {
			t.Errorf("%+v: %q, want %q", d, told, want)
		}
	}
}

// An answer that was rounded to a type may be half a unit in its last place off, and
// no more: what rounds further is wrong.
func TestRoundedAnswersAreRight(t *testing.T) {
	f := goodFile()
	dir := t.TempDir()
	exact := filepath.Join(dir, "exact.safetensors")
	want(t, exitDone, "run", f.write(t, filepath.Join(dir, "in.safetensors")), "-o", exact)
	got, err := tensorfile.Open(exact)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	out, _ := got.Tensor("out")
	x, err := out.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dtype tensorfile.DType
		bits  func(x float32) uint16
		unit  float64
	}{
		{tensorfile.F16, func(x float32) uint16 { return float16.Fromfloat32(x).Bits() }, 0x1p-10},
		{tensorfile.BF16, func(x float32) uint16 { return uint16((math.Float32bits(x) + 0x8000) >> 16) }, 0x1p-7},
	} {
		for off, code := range map[float64]int{0: exitDone, 2: exitCheckFailed} { // units of the largest value
			var data []byte
			for i, v := range x {
				if i == 0 {
					v += float32(off * c.unit)
				}
				data = binary.LittleEndian.AppendUint16(data, c.bits(v))
			}
			f.tensors["out"] = tensorfile.Tensor{Name: "out", DType: c.dtype, Shape: out.Shape, Data: data}
			want(t, code, "verify", f.write(t, filepath.Join(dir, "rounded.safetensors")))
		}
	}
}
