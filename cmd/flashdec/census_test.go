package main

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/tensorfile"
)

// plainFile has two sequences of five keys, four heads on two, three queries, and no rules: 24 rows of three
// elements.
func plainFile() *testFile {
	f := goodFile()
	clear(f.metadata)
	for _, name := range []string{"lens", "mask", "sinks", "alibi_slopes"} {
		delete(f.tensors, name)
	}
	return f
}

// setSingle changes one float32 element of a tensor.
func (f *testFile) setSingle(name string, i int, x float64) {
	binary.LittleEndian.PutUint32(f.tensors[name].Data[4*i:], math.Float32bits(float32(x)))
}

// answered is a file with its own out and lse beside it.
func (f *testFile) answered(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	output := filepath.Join(dir, "answer.safetensors")
	want(t, exitDone, "run", f.write(t, filepath.Join(dir, "in.safetensors")), "-o", output)
	answer, err := tensorfile.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	for _, x := range answer.Tensors {
		x.Data = slices.Clone(x.Data) // the file's own memory ends with it
		f.tensors[x.Name] = x
	}
	return f.write(t, filepath.Join(dir, "answered.safetensors"))
}

// says fails unless a report holds all words, wherever its lines break.
func says(t *testing.T, report string, words ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(report), " ")
	for _, word := range words {
		if !strings.Contains(flat, word) {
			t.Errorf("it says nothing of %q:\n%s", word, report)
		}
	}
}

// TestOverflowIsThePrice: where float16 holds a value no more, the elements that it made infinite are the price of the
// type, in words and numbers, and no difference of 0.
func TestOverflowIsThePrice(t *testing.T) {
	f := plainFile()
	for i := range 15 * 3 {
		f.setSingle("v", i, 1e5) // of both KV heads of the first sequence, and one of the second: 3·2·3 rows
	}
	path := f.answered(t)
	line := objects(t, want(t, exitDone, "run", path, "--kv-dtype=f16", "--json").stdout)[0]
	for field, wanted := range map[string]any{
		"ok": true, "nonfinite": 0.0, "rows": 24.0, "infinite_rows": 18.0, "nan_rows": 0.0,
		"unconverted_nonfinite": 54.0, "answer_nonfinite": 54.0, "answer_judged": false,
	} {
		if line[field] != wanted {
			t.Errorf("%s is %v, want %v", field, line[field], wanted)
		}
	}
	told := want(t, exitDone, "run", path, "--kv-dtype=f16").stdout
	fits(t, told)
	says(t, told, "stored 54 elements are no longer finite: the price of f16 out ", ", where both are finite",
		"softmax ✓ infinities in 18 of 24 rows, as in the direct softmax answer not judged: ")
	says(t, want(t, exitDone, "verify", path, "--kv-dtype=f16").stdout,
		"infinities in 18 of 24 rows, as in the direct softmax Judged by", "from them; 54 elements are no longer finite.")
}

// TestNothingFiniteIsNoZero: where no element is finite there is no difference to tell, and 0 would be one.
func TestNothingFiniteIsNoZero(t *testing.T) {
	f := plainFile()
	for head := range 4 { // of both sequences' KV heads
		f.setSingle("k", head*5*4, math.NaN())
	}
	path := f.answered(t)
	const rows = "NaN in 24 of 24 rows, as in the direct softmax"
	told := want(t, exitDone, "run", path).stdout
	fits(t, told)
	says(t, told, "error out not finite, lse not finite from the float64 softmax ✓ "+rows, "answer out not finite, lse not finite from the file's own ✓",
		"The newest query of sequence 0 has an LSE that is no finite number in 4 of 4 heads: there are no weights of keys to show.")
	says(t, want(t, exitDone, "verify", path).stdout, "– – – 1 split scale 0.5 (1/√4) "+rows)
	says(t, want(t, exitDone, "run", path, "--kv-dtype=bf16").stdout, "stored out not finite, as with the file's own k and v")
	line := objects(t, want(t, exitDone, "run", path, "--json").stdout)[0]
	if line["nan_rows"] != 24.0 || !strings.Contains(line["attention_missing"].(string), "LSE") {
		t.Errorf("%v, want 24 rows of NaN, and why there is no attention", line)
	}
}

// TestRowsCountOnce: a row that is not finite is one, however many numbers of splits are tried.
func TestRowsCountOnce(t *testing.T) {
	f := plainFile()
	f.setSingle("v", 0, math.NaN())
	path := f.answered(t)
	for _, splits := range []string{"--splits=1", "--splits=all"} {
		line := objects(t, want(t, exitDone, "verify", path, splits, "--json").stdout)[0]
		if line["rows"] != 24.0 || line["nan_rows"] != 6.0 || line["infinite_rows"] != 0.0 || line["nonfinite"] != 0.0 {
			t.Errorf("%s: %v, want 6 of 24 rows", splits, line)
		}
	}
}

// TestFaultsOfTheAnswerStandThere: what is not finite beside the file's own out is told there, and not where the
// direct softmax agrees.
func TestFaultsOfTheAnswerStandThere(t *testing.T) {
	f := plainFile()
	f.answered(t)
	f.setSingle("out", 0, math.Inf(1))
	path := f.write(t, filepath.Join(t.TempDir(), "wrong.safetensors"))
	says(t, want(t, exitCheckFailed, "run", path).stdout, "from the float64 softmax ✓ answer ", "from the file's own ✗ 1 element NaN or infinite on one side only")
	says(t, want(t, exitCheckFailed, "verify", path).stdout, "1 element NaN or infinite on one side only, the file's own")
}

// TestNoKeysAreFinite: rows that see no key have an LSE of −Inf, which is right and no oddity.
func TestNoKeysAreFinite(t *testing.T) {
	f := plainFile()
	f.tensors["lens"] = ints("lens", 0, 0)
	path := f.answered(t)
	told := want(t, exitDone, "run", path).stdout
	says(t, told, "error out 0 (limit ", ", lse 0 from the float64 softmax ✓ answer out 0", "The newest query of sequence 0 sees no key: there are none to show.")
	if strings.Contains(told, "finit") {
		t.Errorf("it speaks of numbers that are not finite:\n%s", told)
	}
}

// TestNaNIsNoGrowth: a key of NaN is named, and neither it nor those after it make the maximum grow.
func TestNaNIsNoGrowth(t *testing.T) {
	f := plainFile()
	f.put("k", 2, 2, 9, 4)
	f.put("v", 2, 2, 9, 3)
	path := f.write(t, filepath.Join(t.TempDir(), "grows.safetensors"))
	grows := objects(t, want(t, exitDone, "explain", path, "--splits=1", "--json").stdout)[0]
	steps := grows["steps"].([]any)
	if grows["nan_key"] != -1.0 || grows["maximum_grew"].(float64) < 1 || len(steps) < 4 {
		t.Fatalf("%v, want scores that grow", grows)
	}
	const odd = 4
	f.setSingle("k", odd*4, math.NaN())
	f.write(t, path)
	spoiled := objects(t, want(t, exitDone, "explain", path, "--splits=1", "--json").stdout)[0]
	if grew := spoiled["maximum_grew"].(float64); spoiled["nan_key"] != float64(odd) || grew > grows["maximum_grew"].(float64) {
		t.Errorf("%v, want key %d named, and no growth by it", spoiled, odd)
	}
	seen := false
	for _, step := range spoiled["steps"].([]any) {
		s := step.(map[string]any)
		seen = seen || s["key"] == float64(odd)
		if s["key"].(float64) >= odd && s["grew"] == true {
			t.Errorf("%v, want no growth", s)
		}
	}
	if !seen {
		t.Errorf("%v: key %d is not shown", spoiled["steps"], odd)
	}
	says(t, want(t, exitDone, "explain", path, "--splits=1").stdout, "query 2 (of 0–2) at position 8", "The score of key 4 is NaN, and so is all that follows from it.")
}
