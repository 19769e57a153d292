package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/tensorfile"
)

// testFile is a case to be written: two sequences, four query heads on two KV
// heads, three new queries, five keys, key dim 4 and value dim 3.
type testFile struct {
	tensors  map[string]tensorfile.Tensor
	metadata map[string]string
}

func goodFile() *testFile {
	f := &testFile{map[string]tensorfile.Tensor{}, map[string]string{"scale": "0.5", "causal": "true", "window": "4", "softcap": "30"}}
	f.put("q", 2, 4, 3, 4)
	f.put("k", 2, 2, 5, 4)
	f.put("v", 2, 2, 5, 3)
	f.tensors["lens"] = ints("lens", 5, 3)
	f.put("sinks", 4)
	f.put("alibi_slopes", 4)
	f.tensors["mask"] = tensorfile.Tensor{Name: "mask", DType: tensorfile.U8, Shape: []int{1, 1, 3, 5}, Data: []byte("\x01\x01\x00\x01\x01\x01\x01\x01\x01\x01\x01\x00\x01\x01\x01")}
	return f
}

// put sets a tensor of float32 numbers that repeat only after many.
func (f *testFile) put(name string, shape ...int) { f.tensors[name] = wave(name, shape...) }

func wave(name string, shape ...int) tensorfile.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(3*i + len(name))))
	}
	return singles(name, x, shape)
}

func ints(name string, x ...int32) tensorfile.Tensor {
	var data []byte
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return tensorfile.Tensor{Name: name, DType: tensorfile.I32, Shape: []int{len(x)}, Data: data}
}

func unsigned(x ...uint64) tensorfile.Tensor {
	return tensorfile.Tensor{DType: tensorfile.U64, Shape: []int{len(x)}, Data: tensorfile.Bytes(x)}
}

// double is a tensor as float64.
func double(t *testing.T, x tensorfile.Tensor) tensorfile.Tensor {
	t.Helper()
	wide, err := x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	y := tensorfile.Tensor{Name: x.Name, DType: tensorfile.F64, Shape: x.Shape}
	for _, v := range wide {
		y.Data = binary.LittleEndian.AppendUint64(y.Data, math.Float64bits(v))
	}
	return y
}

func (f *testFile) write(t *testing.T, path string) string {
	t.Helper()
	var tensors []tensorfile.Tensor
	for name, x := range f.tensors {
		x.Name = name
		tensors = append(tensors, x)
	}
	if err := tensorfile.Write(path, tensors, f.metadata); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGoodFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good.safetensors", "good.npz"} {
		path := goodFile().write(t, filepath.Join(dir, name))
		want(t, exitDone, "run", path)
		want(t, exitDone, "explain", path)
		want(t, exitDone, "verify", path, "--splits", "all")
	}
}

func TestUnknownExtrasAreFine(t *testing.T) {
	f := goodFile()
	f.put("hidden", 7, 7, 7)
	f.metadata["author"] = "someone"
	f.metadata["pieces"] = "not JSON"
	f.metadata["casual"] = "true"
	path := f.write(t, filepath.Join(t.TempDir(), "extra.safetensors"))
	for _, verb := range []string{"run", "verify", "explain", "trace"} {
		told := want(t, exitDone, verb, path).errs
		lines := "flashdec: " + path + ": tensor hidden: not read; tensors are q, k, v, lens, sinks, alibi_slopes, mask, out, lse\n" +
			"flashdec: " + path + ": metadata author, casual: not read; rules, and what is shown, are scale, causal, window, softcap, name, text, pieces\n"
		if !strings.HasSuffix(told, lines) {
			t.Errorf("%s says %q, want %q", verb, told, lines)
		}
	}
}

// TestMisspeltTensors: one that may be missing is told of, once in an .npz, too; beside one that must not be, the error
// names it.
func TestMisspeltTensors(t *testing.T) {
	for _, form := range []string{"safetensors", "npz"} {
		path := filepath.Join(t.TempDir(), "misspelt."+form)
		f := goodFile()
		f.tensors["sink"] = f.tensors["sinks"]
		delete(f.tensors, "sinks")
		f.metadata["casual"] = "true"
		for _, verb := range []string{"run", "verify", "explain", "trace"} {
			told := want(t, exitDone, verb, f.write(t, path)).errs
			if strings.Count(told, ": tensor sink: not read; tensors are q, k, v, lens, ") != 1 || strings.Count(told, "casual") != 1 {
				t.Errorf("%s says %q, want it to tell once of sink and of casual", verb, told)
			}
		}
		f.tensors["kk"] = f.tensors["k"]
		delete(f.tensors, "k")
		refuses(t, []string{path, "tensor k", "missing", "nobody reads the file's kk, sink\n"}, "run", f.write(t, path))
	}
}

// TestRulesAreTold: which rules a file asks for, scale's default among them.
func TestRulesAreTold(t *testing.T) {
	all, few := goodFile(), goodFile()
	few.metadata = map[string]string{}
	few.put("q", 1, 4, 3, 4)
	few.put("k", 1, 2, 5, 4)
	few.put("v", 1, 2, 5, 3)
	few.tensors["lens"] = ints("lens", 5) // of one element, which an .npz has as metadata, too
	for _, name := range []string{"sinks", "alibi_slopes", "mask"} {
		delete(few.tensors, name)
	}
	for rules, f := range map[string]*testFile{"scale 0.5, softcap 30, causal, window 4, mask, ALiBi, sinks": all, "scale 0.5 (1/√4)": few} {
		path := f.write(t, filepath.Join(t.TempDir(), "rules.npz"))
		r := want(t, exitDone, "run", path)
		if !strings.Contains(r.stdout, "rules   "+rules+"\n") || r.errs != "" {
			t.Errorf("run does not say %q, or says %q:\n%s", rules, r.errs, r.stdout)
		}
		if line := objects(t, want(t, exitDone, "verify", path, "--json").stdout)[0]; line["rules"] != rules {
			t.Errorf("verify says %q, want %q", line["rules"], rules)
		}
	}
}

func TestBadInput(t *testing.T) {
	as := func(name string, dtype tensorfile.DType) func(*testFile) {
		return func(f *testFile) {
			x := f.tensors[name]
			n := len(x.Data) / x.DType.Size()
			f.tensors[name] = tensorfile.Tensor{DType: dtype, Shape: x.Shape, Data: make([]byte, n*dtype.Size())}
		}
	}
	shaped := func(name string, shape ...int) func(*testFile) { return func(f *testFile) { f.put(name, shape...) } }
	without := func(name string) func(*testFile) { return func(f *testFile) { delete(f.tensors, name) } }
	meta := func(key, value string) func(*testFile) { return func(f *testFile) { f.metadata[key] = value } }
	for name, c := range map[string]struct {
		spoil func(*testFile)
		words []string
	}{
		"no q":               {without("q"), []string{"tensor q", "missing"}},
		"no k":               {without("k"), []string{"tensor k", "missing"}},
		"no v":               {without("v"), []string{"tensor v", "missing"}},
		"q of rank 3":        {shaped("q", 4, 3, 4), []string{"tensor q", "[4 3 4]", "[sequences, query heads, queries, key dim]"}},
		"k of rank 5":        {shaped("k", 1, 2, 2, 5, 4), []string{"tensor k", "[1 2 2 5 4]"}},
		"v of rank 0":        {shaped("v"), []string{"tensor v", "[]"}},
		"q of integers":      {as("q", tensorfile.I32), []string{"tensor q", "I32", "F32"}},
		"k of eight bits":    {as("k", tensorfile.F8E4M3), []string{"tensor k", "F8_E4M3", "BF16"}},
		"v of bytes":         {as("v", tensorfile.U8), []string{"tensor v", "U8"}},
		"k of another batch": {shaped("k", 1, 2, 5, 4), []string{"tensor k", "[1 2 5 4]", "[2 2 5 4]"}},
		"k of another dim":   {shaped("k", 2, 2, 5, 8), []string{"tensor k", "[2 2 5 8]", "[2 2 5 4]"}},
		"v of other keys":    {shaped("v", 2, 2, 6, 3), []string{"tensor v", "[2 2 6 3]", "[2 2 5 3]"}},
		"v of other heads":   {shaped("v", 2, 4, 5, 3), []string{"tensor v", "[2 4 5 3]"}},
		"heads no multiple":  {shaped("q", 2, 3, 3, 4), []string{"q [2 3 3 4]", "3 query heads", "2 KV heads"}},
		"no query heads":     {shaped("q", 2, 0, 3, 4), []string{"query heads is 0"}},
		"dim 0":              {func(f *testFile) { f.put("q", 2, 4, 3, 0); f.put("k", 2, 2, 5, 0) }, []string{"key dim is 0"}},
		"lens of floats":     {as("lens", tensorfile.F32), []string{"tensor lens", "F32", "I64"}},
		"lens of booleans":   {as("lens", tensorfile.Bool), []string{"tensor lens", "BOOL"}},
		"too many lens":      {func(f *testFile) { f.tensors["lens"] = ints("lens", 1, 2, 3) }, []string{"tensor lens", "[3]", "[2]"}},
		"lens negative":      {func(f *testFile) { f.tensors["lens"] = ints("lens", 5, -1) }, []string{"tensor lens", "sequence 1", "-1"}},
		"lens beyond":        {func(f *testFile) { f.tensors["lens"] = ints("lens", 6, 1) }, []string{"tensor lens", "sequence 0", "6", "0 to 5"}},
		"sinks a KV head":    {shaped("sinks", 2), []string{"tensor sinks", "[2]", "[4]"}},
		"sinks of integers":  {as("sinks", tensorfile.I64), []string{"tensor sinks", "I64"}},
		"slopes of rank 2":   {shaped("alibi_slopes", 2, 2), []string{"tensor alibi_slopes", "[2 2]", "[4]"}},
		"slopes NaN": {func(f *testFile) {
			f.tensors["alibi_slopes"] = singles("", []float32{0, float32(math.NaN()), 0, 0}, []int{4})
		}, []string{"tensor alibi_slopes", "NaN"}},
		"mask of floats":      {as("mask", tensorfile.F32), []string{"tensor mask", "F32", "U8"}},
		"mask with heads":     {func(f *testFile) { f.tensors["mask"] = bytesOf(1, 4, 3, 5) }, []string{"tensor mask", "[1 4 3 5]", "[1 or 2, 1, 3, 5]"}},
		"mask of other keys":  {func(f *testFile) { f.tensors["mask"] = bytesOf(1, 1, 3, 4) }, []string{"tensor mask", "[1 1 3 4]"}},
		"mask of rank 2":      {func(f *testFile) { f.tensors["mask"] = bytesOf(3, 5) }, []string{"tensor mask", "[3 5]"}},
		"mask of three":       {func(f *testFile) { f.tensors["mask"] = bytesOf(3, 1, 3, 5) }, []string{"tensor mask", "[3 1 3 5]"}},
		"out of another dim":  {shaped("out", 2, 4, 3, 4), []string{"tensor out", "[2 4 3 4]", "[2 4 3 3]"}},
		"out of integers":     {func(f *testFile) { f.put("out", 2, 4, 3, 3); as("out", tensorfile.I16)(f) }, []string{"tensor out", "I16"}},
		"lse of rank 4":       {shaped("lse", 2, 4, 3, 1), []string{"tensor lse", "[2 4 3 1]", "[2 4 3]"}},
		"scale NaN":           {meta("scale", "NaN"), []string{"metadata scale", `"NaN"`}},
		"scale infinite":      {meta("scale", "-inf"), []string{"metadata scale", `"-inf"`}},
		"scale 0":             {meta("scale", "0.0"), []string{"metadata scale", `"0.0"`, "other than 0"}},
		"scale no number":     {meta("scale", "half"), []string{"metadata scale", `"half"`}},
		"scale too large":     {meta("scale", "1e999"), []string{"metadata scale", `"1e999"`}},
		"scale long":          {meta("scale", strings.Repeat("x\n", 1000)), []string{"metadata scale", "…"}},
		"causal no boolean":   {meta("causal", "perhaps"), []string{"metadata causal", `"perhaps"`, "true or false"}},
		"window 0":            {meta("window", "0"), []string{"metadata window", `"0"`, "at least 1"}},
		"window negative":     {meta("window", "-5"), []string{"metadata window", `"-5"`}},
		"window a fraction":   {meta("window", "2.5"), []string{"metadata window", `"2.5"`}},
		"window too large":    {meta("window", "9223372036854775808"), []string{"metadata window"}},
		"softcap 0":           {meta("softcap", "0"), []string{"metadata softcap", `"0"`, "above 0"}},
		"softcap negative":    {meta("softcap", "-30"), []string{"metadata softcap", `"-30"`}},
		"softcap NaN":         {meta("softcap", "nan"), []string{"metadata softcap", `"nan"`}},
		"softcap of no value": {meta("softcap", ""), []string{"metadata softcap", `""`}},
		"window a tensor":     {func(f *testFile) { f.tensors["window"] = ints("", 3) }, []string{"tensor window", "belongs in the metadata"}},
		"only a tensor": {func(f *testFile) {
			delete(f.metadata, "causal")
			f.tensors["causal"] = bytesOf(1)
		}, []string{"tensor causal", "belongs in the metadata"}},
		"scale of two":     {shaped("scale", 2), []string{"tensor scale", "[2]", "belongs in the metadata"}},
		"softcap of none":  {shaped("softcap", 0), []string{"tensor softcap", "[0]", "belongs in the metadata"}},
		"metadata lens":    {func(f *testFile) { delete(f.tensors, "lens"); f.metadata["lens"] = "[5, 3]" }, []string{"metadata lens", "belongs in a tensor"}},
		"metadata sinks":   {func(f *testFile) { delete(f.tensors, "sinks"); f.metadata["sinks"] = "0" }, []string{"metadata sinks", "belongs in a tensor"}},
		"lens past an int": {func(f *testFile) { f.tensors["lens"] = unsigned(5, 1<<63) }, []string{"bad.safetensors: tensor lens: has a length that no int holds"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := goodFile()
			c.spoil(f)
			path := f.write(t, filepath.Join(t.TempDir(), "bad.safetensors"))
			for _, verb := range []string{"run", "verify", "explain"} {
				refuses(t, append(c.words, path), verb, path)
			}
		})
	}
}

// In an .npz a rule is an array of one element; of several, which one would it be?
func TestRulesInAnArchive(t *testing.T) {
	f := goodFile()
	delete(f.metadata, "window")
	f.tensors["window"] = ints("", 4)
	path := filepath.Join(t.TempDir(), "rules.npz")
	want(t, exitDone, "run", f.write(t, path))
	f.tensors["window"] = ints("", 4, 4)
	refuses(t, []string{path, "tensor window", "[2]", "one element"}, "run", f.write(t, path))
}

func bytesOf(shape ...int) tensorfile.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return tensorfile.Tensor{DType: tensorfile.U8, Shape: shape, Data: make([]byte, n)}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(goodFile().write(t, filepath.Join(dir, "good.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(dir, "one.npy")
	if err := tensorfile.Write(one, []tensorfile.Tensor{wave("one", 2, 2)}, nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty.safetensors": {}, "truncated.safetensors": good[:len(good)-1], "header.safetensors": good[:20],
		"noise.npz": []byte("PK\x03\x04 and no more"), "text.txt": []byte("hello"), "huge.safetensors": []byte("\xff\xff\xff\xff\xff\xff\xff\x7f{}"),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"run", "verify", "explain"} {
				refuses(t, []string{path}, verb, path)
			}
		})
	}
	refuses(t, []string{"missing.safetensors", "no such file"}, "run", filepath.Join(dir, "missing.safetensors"))
	refuses(t, []string{dir, "directory", "flashdec verify"}, "run", dir)
	refuses(t, []string{"path", "empty"}, "run", "")
	refuses(t, []string{"path", "empty"}, "verify", "")
	refuses(t, []string{one, "no attention case", "q, k or v"}, "run", one)
}

// FuzzCase feeds whole files to the reader, and what it accepts to the engine.
func FuzzCase(f *testing.F) {
	dir := f.TempDir()
	for i, name := range []string{"a.safetensors", "b.npz"} {
		file := goodFile()
		if i == 1 {
			delete(file.metadata, "window")
		}
		path := filepath.Join(dir, name)
		var tensors []tensorfile.Tensor
		for name, x := range file.tensors {
			x.Name = name
			tensors = append(tensors, x)
		}
		if err := tensorfile.Write(path, tensors, file.metadata); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := tensorfile.ParseSafetensors(data)
		if err != nil {
			if file, err = tensorfile.ParseNPZ(data); err != nil {
				return
			}
		}
		c, err := newCase(t.Context(), "fuzz", file)
		if err != nil {
			return
		}
		if c.seqs*max(c.queries, 1)*c.shape.NumHeads*(c.shape.KeyDim+c.shape.ValueDim) > 1<<20 {
			return
		}
		for _, flags := range []engineFlags{{Backend: "cpu"}, {Backend: "cpu", PageSize: 2, KVDType: "f16", Invariant: true}} {
			decodeAndJudge(t, c, &flags)
		}
	})
}

// decodeAndJudge runs a case. What the reader accepted must not fail.
func decodeAndJudge(t *testing.T, c *decodeCase, flags *engineFlags) {
	d, err := newDecoder(t.Context(), c, flags)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	got := &decoded{}
	d.take(got, c.whole())
	if err := d.decode(t.Context(), got, 3, flags.Invariant); err != nil {
		t.Fatal(err)
	}
	j := &judge{c: c, from: d.cache.source(c), threads: 1, lossy: d.cache.lossy}
	if _, err := j.judge(t.Context(), got); err != nil {
		t.Fatal(err)
	}
}

// Files can claim any number of sequences without having an element.
func TestCountlessSequencesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		seqs, heads int
		words       []string
	}{
		"sequences": {maxSequences + 1, 1, []string{"tensor q", "sequences", fmt.Sprint(maxSequences)}},
		"rows":      {maxSequences, maxRows/maxSequences + 1, []string{"tensor q", "query heads", fmt.Sprint(maxRows)}},
	} {
		f := &testFile{map[string]tensorfile.Tensor{}, nil}
		f.put("q", c.seqs, c.heads, 0, 1)
		f.put("k", c.seqs, c.heads, 0, 1)
		f.put("v", c.seqs, c.heads, 0, 1)
		t.Run(name, func(t *testing.T) {
			refuses(t, c.words, "run", f.write(t, filepath.Join(t.TempDir(), "empty.safetensors")))
		})
	}
}

// Of many metadata keys or tensors that nobody reads, some are named and the others counted.
func TestManyUnreadNamesAreCounted(t *testing.T) {
	f := goodFile()
	for i := range 8 {
		f.metadata[fmt.Sprint("note", i)] = "x"
		f.put(fmt.Sprint("extra", i), 2)
	}
	path := f.write(t, filepath.Join(t.TempDir(), "notes.safetensors"))
	told := want(t, exitDone, "run", path).errs
	for _, line := range []string{"metadata note0, note1, note2, note3, note4 and 3 more: not read", "tensor extra0, extra1, extra2, extra3, extra4 and 3 more: not read"} {
		if !strings.Contains(told, line) {
			t.Errorf("stderr is %q, want %q", told, line)
		}
	}
}

// Filling a cache ends when the command is interrupted.
func TestCopyingStops(t *testing.T) {
	c, err := openCase(t.Context(), realLayer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newCache(ctx, c, 16, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the interrupt", err)
	}
}

// TestHelpNamesAllThatIsRead: each tensor with its shape, each rule, and each text that run shows; and the tokens' text
// comes from where help says.
func TestHelpNamesAllThatIsRead(t *testing.T) {
	help := want(t, exitDone, "run", "--help").stdout
	for _, name := range inputs {
		if !regexp.MustCompile(`(?m)^    ` + name + ` +\[[a-z1]`).MatchString(help) {
			t.Errorf("help gives no shape of %s:\n%s", name, help)
		}
	}
	for _, name := range slices.Concat(rules, shown) {
		if !strings.Contains(help, `"`+name+`"`) {
			t.Errorf("help says nothing of metadata %q:\n%s", name, help)
		}
	}
	f := plainFile()
	f.metadata["name"], f.metadata["text"], f.metadata["pieces"] = "a name", "a text", `["zero", "one", "two", "three", "four"]`
	r := want(t, exitDone, "run", f.write(t, filepath.Join(t.TempDir(), "shown.safetensors")))
	if says(t, r.stdout, "a name a text 2 sequences", "The newest token, “four”,", "[zero]one"); r.errs != "" {
		t.Errorf("stderr is %q, want nothing: all of it is read", r.errs)
	}
}
