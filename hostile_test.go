package flashdec_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/plan"
	"github.com/flashdec/flashdec/sample"
	"github.com/flashdec/flashdec/tensorfile"
	"github.com/flashdec/flashdec/token"
)

// publicTypes and publicFuncs are all that the public packages export. Methods
// are found by reflection.
var (
	publicTypes = []any{
		flashdec.Options{},
		flashdec.Engine{},
		flashdec.Batch{},
		flashdec.Step{},
		flashdec.Output{},
		attn.Shape{},
		attn.Options{},
		attn.Mask{},
		attn.Reference{},
		attn.Limits{},
		attn.Distance{},
		attn.State[float32]{},
		attn.State[float64]{},
		attn.States{},
		attn.LSE(0), attn.LSE2(0),
		kv.Config{},
		kv.Cache{},
		kv.Sequence{},
		kv.Stats{},
		kv.Loss{},
		kv.Deviation{},
		kv.View{},
		kv.Table{},
		kv.Plane{},
		kv.Scales{},
		kv.Memory{},
		kv.ScaleKind(0), kv.DType(0), kv.Layout(0), kv.PageID(0),
		kv.Tensor{},
		plan.Config{},
		plan.Seq{},
		plan.Plan{},
		plan.Item{},
		plan.Unit{},
		backend.Info{},
		backend.Launch{},
		backend.Trace{},
		backend.Span{},
		backend.Work{},
		backend.Kind(0),
		gguf.File{},
		gguf.Tensor{},
		gguf.Type(0),
		model.Model{},
		model.Config{},
		model.Options{},
		model.Runner{},
		model.Stats{},
		model.Part{},
		model.Sequence{},
		tensorfile.File{},
		tensorfile.Tensor{},
		tensorfile.DType(0),
		token.Tokenizer{},
		token.Stream{},
		token.Message{},
		token.ChatOptions{},
		sample.Options{},
		sample.Chain{},
		sample.Stop{},
	}
	publicFuncs = map[string]any{
		"flashdec.Open": flashdec.Open,
		"attn.Direct":   attn.Direct, "attn.DirectBlock": attn.DirectBlock, "attn.Float32Limits": attn.Float32Limits,
		"attn.TreeMask": attn.TreeMask, "attn.MakeStates": attn.MakeStates,
		"attn.Empty": attn.Empty[float32], "attn.SinkState": attn.SinkState[float32],
		"attn.Merge": attn.Merge[float32], "attn.Weigh": attn.Weigh[float32], "attn.FromLSE": attn.FromLSE[float32],
		"kv.New": kv.New, "kv.NewTogether": kv.NewTogether, "kv.NewOn": kv.NewOn, "kv.Contiguous": kv.Contiguous, "kv.ParseDType": kv.ParseDType,
		"plan.New":  plan.New,
		"gguf.Open": gguf.Open, "gguf.Parse": gguf.Parse,
		"model.Open": model.Open, "model.NewRunner": model.NewRunner,
		"tensorfile.Open": tensorfile.Open, "tensorfile.Index": tensorfile.Index,
		"tensorfile.ParseSafetensors": tensorfile.ParseSafetensors, "tensorfile.ParseNPY": tensorfile.ParseNPY, "tensorfile.ParseNPZ": tensorfile.ParseNPZ,
		"tensorfile.View": tensorfile.View[float32], "tensorfile.Bytes": tensorfile.Bytes[float32],
		"tensorfile.Write": tensorfile.Write, "tensorfile.WriteContext": tensorfile.WriteContext,
		"tensorfile.WriteSafetensors": tensorfile.WriteSafetensors, "tensorfile.WriteNPZ": tensorfile.WriteNPZ,
		"token.FromFolder": token.FromFolder, "token.FromGGUF": token.FromGGUF, "token.FromTokenizerJSON": token.FromTokenizerJSON,
		"sample.New": sample.New, "sample.NewStop": sample.NewStop,
	}
)

// draws is how many hostile calls each function and method gets.
const draws = 1000

// TestNoPanicLeavesTheAPI calls all that is exported with zero values, nils,
// negative and huge numbers, and slices whose lengths do not fit.
func TestNoPanicLeavesTheAPI(t *testing.T) {
	t.Chdir(t.TempDir()) // where files may be written
	h := newHostile(t)
	for _, name := range slices.Sorted(maps.Keys(publicFuncs)) { // in an order that makes the same draws each time
		for range draws {
			h.call(name, reflect.ValueOf(publicFuncs[name]))
		}
	}
	for _, x := range publicTypes {
		pointer := reflect.PointerTo(reflect.TypeOf(x))
		for i := range pointer.NumMethod() {
			m := pointer.Method(i)
			name := pointer.Elem().String() + "." + m.Name
			for range draws {
				h.call(name, h.receiver(pointer).Method(i))
			}
			if _, ofValue := pointer.Elem().MethodByName(m.Name); !ofValue && (opaque(pointer) || returnsError(m.Type)) {
				h.call(name+" of nil", m.Func, reflect.Zero(pointer))
			}
		}
	}
	if h.calls < 10000 {
		t.Errorf("%d calls, want some hundred for each function", h.calls)
	}
}

// opaque reports a type whose values only the package makes: a nil pointer to one
// is what a caller has who has overlooked an error.
func opaque(pointer reflect.Type) bool {
	switch pointer {
	case reflect.TypeFor[*flashdec.Engine](), reflect.TypeFor[*flashdec.Step](), reflect.TypeFor[*flashdec.Output](),
		reflect.TypeFor[*kv.Cache](), reflect.TypeFor[*kv.Sequence](),
		reflect.TypeFor[*gguf.File](), reflect.TypeFor[*model.Model](), reflect.TypeFor[*model.Runner](), reflect.TypeFor[*model.Sequence]():
		return true
	}
	return false
}

func returnsError(f reflect.Type) bool {
	return f.NumOut() > 0 && f.Out(f.NumOut()-1) == reflect.TypeFor[error]()
}

// hostile draws arguments. Some are sound, so that calls get past the first check.
type hostile struct {
	*rand.Rand
	t     *testing.T
	sound map[reflect.Type]func() reflect.Value
	calls int
}

func newHostile(t *testing.T) *hostile {
	eng, cache, seq, step := opened(t)
	h := &hostile{Rand: rand.New(rand.NewPCG(1, 2)), t: t}
	h.sound = map[reflect.Type]func() reflect.Value{}
	sound := func(make func() any) {
		h.sound[reflect.TypeOf(make())] = func() reflect.Value { return reflect.ValueOf(make()) }
	}
	sound(func() any { return eng })
	sound(func() any { return cache })
	sound(func() any { return seq })
	sound(func() any { return step })
	sound(func() any { return step.NewOutput() })
	sound(func() any { return step.NewStates() })
	sound(func() any { return tiny })
	sound(func() any { v, _ := cache.View(seq); return v })
	sound(func() any {
		return kv.Config{NumKVHeads: 1 + h.IntN(2), KeyDim: 2, ValueDim: 2, PageSize: 2, NumPages: 3, KeyType: kv.DType(h.IntN(8))}
	})
	sound(func() any {
		return plan.Config{Seqs: []plan.Seq{{Len: 300, NumQueries: 2}}, NumKVHeads: 1, GroupSize: 2, Width: 2}
	})
	sound(func() any {
		p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 3, NumQueries: 1}}, NumKVHeads: 1, GroupSize: 2, Width: 2, NumSplits: 2})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
	return h
}

// call calls f with hostile arguments after the given ones.
func (h *hostile) call(name string, f reflect.Value, args ...reflect.Value) {
	h.t.Helper()
	for i := len(args); i < f.Type().NumIn(); i++ {
		args = append(args, h.value(f.Type().In(i), 4))
	}
	defer func() {
		if x := recover(); x != nil {
			h.t.Errorf("%s panics: %v\nwith %s", name, x, describe(args))
		}
	}()
	h.calls++
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	for _, result := range call(args) {
		switch made := result.Interface().(type) {
		case *flashdec.Engine:
			_ = made.Close()
		case *kv.Cache:
			_ = made.Close()
		case attn.KeyValues:
			made.Key(make([]float32, h.IntN(5)), h.IntN(9)-4, int(h.number()))
			made.Value(make([]float32, h.IntN(5)), h.IntN(9)-4, int(h.number()))
		}
	}
}

func describe(args []reflect.Value) string {
	var b strings.Builder
	for _, a := range args {
		if a.Kind() == reflect.Pointer && !a.IsNil() {
			a = a.Elem()
		}
		b.WriteString("\t")
		b.WriteString(a.Type().String())
	}
	return b.String()
}

// receiver is a sound, a zero or a hostile value to call methods of.
func (h *hostile) receiver(pointer reflect.Type) reflect.Value {
	switch h.IntN(3) {
	case 0:
		if make := h.sound[pointer]; make != nil {
			// Closing and freeing what all share would leave nothing sound.
			if pointer == reflect.TypeFor[*kv.Sequence]() {
				fork, err := make().Interface().(*kv.Sequence).Fork()
				if err != nil {
					h.t.Fatal(err)
				}
				return reflect.ValueOf(fork)
			}
			if pointer != reflect.TypeFor[*flashdec.Engine]() && pointer != reflect.TypeFor[*kv.Cache]() {
				return make()
			}
		}
		fallthrough
	case 1:
		return reflect.New(pointer.Elem())
	}
	p := reflect.New(pointer.Elem())
	p.Elem().Set(h.value(pointer.Elem(), 4))
	return p
}

// number is a small, a negative or a huge one; those between are sizes of memory
// that a machine might have.
func (h *hostile) number() int64 {
	return [...]int64{0, 1, 2, 3, -1, -2, math.MinInt64, math.MaxInt64, 1 << 62}[h.IntN(9)]
}

func (h *hostile) value(t reflect.Type, depth int) reflect.Value {
	if make := h.sound[t]; make != nil && h.IntN(2) == 0 {
		return make()
	}
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(h.number())
	case reflect.Uint8:
		v.SetUint(h.Uint64N(9))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([...]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300}[h.IntN(7)])
	case reflect.String:
		v.SetString([...]string{"", "a", "user", "\x00\xff", strings.Repeat("ab ", 999)}[h.IntN(5)])
	case reflect.Map:
		if h.IntN(3) > 0 {
			v.Set(reflect.MakeMap(t))
		}
		if !v.IsNil() && depth > 0 && h.IntN(2) == 0 {
			v.SetMapIndex(h.value(t.Key(), depth-1), h.value(t.Elem(), depth-1))
		}
	case reflect.Bool:
		v.SetBool(h.IntN(2) == 0)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(h.value(t.Field(i).Type, depth))
			}
		}
	case reflect.Slice:
		if depth > 0 && h.IntN(4) > 0 {
			v.Set(reflect.MakeSlice(t, h.IntN(5), 5))
			for i := range v.Len() {
				v.Index(i).Set(h.value(t.Elem(), depth-1))
			}
		}
	case reflect.Pointer:
		if depth > 0 && h.IntN(4) > 0 {
			v.Set(reflect.New(t.Elem()))
			if !opaque(t) {
				v.Elem().Set(h.value(t.Elem(), depth-1))
			}
		}
	case reflect.Interface:
		if x := h.implement(t); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	}
	return v
}

// implement is a value of an interface type, or nil.
func (h *hostile) implement(t reflect.Type) any {
	if h.IntN(3) == 0 {
		return nil
	}
	switch t {
	case reflect.TypeFor[context.Context]():
		return context.Background()
	case reflect.TypeFor[io.Writer]():
		return io.Discard
	case reflect.TypeFor[attn.KeyValues]():
		return hostileKeys(h.number())
	case reflect.TypeFor[kv.Store]():
		return emptyStore{}
	case reflect.TypeFor[fs.FS]():
		return fstest.MapFS{"tokenizer.json": {Data: []byte(`{"model": null}`)}}
	}
	return nil
}

// hostileKeys says it has that many keys, all zero.
type hostileKeys int

func (n hostileKeys) Len() int                         { return int(n) }
func (hostileKeys) Key(dst []float32, head, pos int)   {}
func (hostileKeys) Value(dst []float32, head, pos int) {}

// emptyStore holds nothing.
type emptyStore struct{}

func (emptyStore) Write(kv.PageID, int, []float32, []float32) error { return errors.New("full") }
func (emptyStore) Copy(dst, src kv.PageID, slots int) error         { return errors.New("full") }
func (emptyStore) Planes() (k, v kv.Plane)                          { return k, v }
func (emptyStore) Close() error                                     { return nil }

// TestAllOfTheAPIIsTried finds what is exported and not among the above.
func TestAllOfTheAPIIsTried(t *testing.T) {
	if testing.Short() {
		t.Skip("a list to complete, not a fault")
	}
	types := map[string]bool{}
	for _, x := range publicTypes {
		types[strings.Split(reflect.TypeOf(x).String(), "[")[0]] = true
	}
	for _, dir := range []string{".", "attn", "kv", "plan", "backend", "gguf", "model", "tensorfile", "token", "sample"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				for _, name := range exported(decl) {
					if name = file.Name.Name + "." + name; !types[name] && publicFuncs[name] == nil {
						t.Errorf("%s is exported, and nobody tries it with hostile arguments", name)
					}
				}
			}
		}
	}
}

// exported are the functions, and the types but interfaces, that a declaration
// exports.
func exported(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.TypeSpec)
			if !ok || !s.Name.IsExported() {
				continue
			}
			if _, ok := s.Type.(*ast.InterfaceType); !ok {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}
