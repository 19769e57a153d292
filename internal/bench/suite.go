package bench

import (
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// DTypes are the element types, those of the suite types.
var DTypes = []kv.DType{kv.F32, kv.F16, kv.BF16, kv.F8E4M3, kv.F8E5M2, kv.I8, kv.I4}

// Suite is a named set of cases, for so many bytes of keys and values. Cases that
// do not fit are left out.
type Suite struct {
	Name  string
	Help  string
	Base  string // what its cases are compared with, in words; "" where with none
	cases func(bytes int) []Case
}

// Suites are all there are, in the order in which they are measured.
var Suites = []Suite{
	{"types", "each element type, groups 1, 4, 7, 8, head dims 128 and 64", "f16 of the same shape", typeCases},
	{"levels", "the kernel levels below this processor's best", "", levelCases},
	{"lengths", "one sequence, 1K to 1M keys", "", lengthCases},
	{"ragged", "the same bytes as one sequence, as 64, and one among short ones", "one sequence", raggedCases},
	{"pages", "pages in random order, and in order, against contiguous tensors", "contiguous tensors", pageCases},
	{"invariant", "bits that do not depend on the batch against free splits", "free splits", invariantCases},
	{"window", "a window of 1024 keys, whatever the length", "1024 keys", windowCases},
	{"blog", "the table that FlashDecoding was published with", "256 sequences", blogCases},
	{"decode", "shapes of models in use", "", decodeCases},
	{"peers", "one sequence of 64K keys, for a look at other implementations", "", peerCases},
	{"threads", "one sequence, to be measured with every number of threads", "", threadCases},
}

// BaseOf is what the cases of a suite are compared with, in words.
func BaseOf(suite string) string {
	i := slices.IndexFunc(Suites, func(s Suite) bool { return s.Name == suite })
	if i < 0 || Suites[i].Base == "" {
		return "another case" // of a record that someone else made
	}
	return Suites[i].Base
}

// Cases are the suite's cases that fit into so many bytes.
func (s *Suite) Cases(bytes int) []Case {
	return slices.DeleteFunc(s.cases(bytes), func(c Case) bool { return len(c.Lens) == 0 || slices.Min(c.Lens) < 1 || c.StoredBytes() > bytes })
}

// inTurns says that all cases are measured in turns, each compared with the one
// that against names.
func inTurns(cases []Case, against string) []Case {
	for i := range cases {
		cases[i].Turns = "all"
		if cases[i].Name != against {
			cases[i].Against = against
		}
	}
	return cases
}

// Grouped is one sequence on 8 KV heads, as long as the bytes allow.
func Grouped(dtype kv.DType, group, dim, bytes int) Case {
	c := Case{Heads: 8 * group, KVHeads: 8, Dim: dim, DType: dtype}
	c.Lens = []int{bytes / (2 * c.KVHeads * c.RowBytes())}
	return c
}

func typeCases(bytes int) []Case {
	var cases []Case
	for _, dim := range []int{128, 64} {
		for _, group := range []int{1, 4, 7, 8} {
			shape := fmt.Sprintf("group %d, dim %d", group, dim)
			for _, dtype := range DTypes {
				c := Grouped(dtype, group, dim, bytes)
				c.Name, c.Turns = fmt.Sprintf("%v, %s", dtype, shape), shape
				if dtype != kv.F16 {
					c.Against = fmt.Sprintf("%v, %s", kv.F16, shape)
				}
				cases = append(cases, c)
			}
		}
	}
	return cases
}

func levelCases(bytes int) []Case {
	var cases []Case
	levels := simd.Levels()
	for _, level := range levels[:len(levels)-1] {
		for _, dtype := range []kv.DType{kv.F32, kv.F16, kv.BF16} {
			c := Grouped(dtype, 4, 128, bytes)
			if level == simd.Generic {
				c.Lens[0] /= 16 // plain Go computes much longer than it reads
			}
			c.Name, c.Level, c.Turns = fmt.Sprintf("%s, %v, group 4, dim 128", level, dtype), level, dtype.String()
			cases = append(cases, c)
		}
	}
	return cases
}

func lengthCases(int) []Case {
	var cases []Case
	for n := 1 << 10; n <= 1<<20; n *= 2 {
		cases = append(cases, Case{Name: fmt.Sprintf("%d keys", n), Heads: 4, KVHeads: 1, Dim: 128, Lens: []int{n}, DType: kv.F16})
	}
	return inTurns(cases, "")
}

// DecodeShapes are the steps of the suite decode: batch, query heads, KV heads,
// keys, head dim. GPUs are timed on the same.
var DecodeShapes = [][5]int{
	{1, 32, 8, 1024, 128},
	{1, 32, 8, 4096, 128},
	{1, 32, 8, 16384, 128},
	{1, 32, 8, 65536, 128},
	{1, 32, 8, 131072, 128},
	{1, 32, 8, 524288, 128},
	{1, 32, 8, 1048576, 128},
	{1, 64, 8, 16384, 128},
	{1, 32, 32, 4096, 128},
	{16, 32, 8, 4096, 128},
	{64, 32, 8, 4096, 128},
	{128, 32, 8, 1024, 128},
	{16, 64, 8, 16384, 128},
	{1, 9, 3, 8192, 64},
	{8, 16, 2, 32768, 256},
}

func decodeCases(int) []Case {
	var cases []Case
	for _, s := range DecodeShapes {
		c := Case{Heads: s[1], KVHeads: s[2], Dim: s[4], Lens: slices.Repeat([]int{s[3]}, s[0]), DType: kv.BF16}
		c.Name = fmt.Sprintf("batch %d, %d/%d heads, %d keys, dim %d", s[0], s[1], s[2], s[3], s[4])
		cases = append(cases, c)
	}
	return cases
}

// blogCases are the same bytes cut into ever fewer and longer sequences. The
// algorithm's promise is that the time stays.
func blogCases(int) []Case {
	var cases []Case
	for batch := 256; batch >= 1; batch /= 2 {
		cases = append(cases, blogCase(batch, 65536/batch))
	}
	return inTurns(append(cases, blogCase(1, 131072)), cases[0].Name)
}

func blogCase(batch, keys int) Case {
	return Case{
		Name: fmt.Sprintf("%d × %d keys", batch, keys), Heads: 16, KVHeads: 2, Dim: 128,
		Lens: slices.Repeat([]int{keys}, batch), DType: kv.F16,
	}
}

func raggedCases(bytes int) []Case {
	one := Grouped(kv.F16, 4, 128, bytes)
	n := one.Lens[0]
	many, mixed := one, one
	one.Name = fmt.Sprintf("1 × %d keys", n)
	many.Name, many.Lens = fmt.Sprintf("64 × %d keys", n/64), slices.Repeat([]int{n / 64}, 64)
	mixed.PageSize = 16
	mixed.Lens = append([]int{n / 2}, slices.Repeat([]int{n / 128}, 63)...)
	mixed.Name = fmt.Sprintf("1 × %d and 63 × %d keys, pages of 16", n/2, n/128)
	return inTurns([]Case{one, many, mixed}, one.Name)
}

func windowCases(bytes int) []Case {
	all := Grouped(kv.F16, 4, 128, bytes/4)
	windowed, short := all, all
	all.Name = fmt.Sprintf("%d keys", all.Lens[0])
	windowed.Name, windowed.Window = fmt.Sprintf("a window of 1024 of %d keys", all.Lens[0]), 1024
	short.Name, short.Lens = "1024 keys", []int{1024}
	return inTurns([]Case{all, windowed, short}, short.Name)
}

const (
	contiguous = "contiguous"
	inOrder    = ", in order" // ends the name of a case whose pages lie so
)

func pageCases(bytes int) []Case {
	var cases []Case
	for _, size := range []int{0, 1, 16, 64, 256} {
		c := Grouped(kv.F16, 4, 128, bytes)
		c.Name, c.PageSize = fmt.Sprintf("pages of %d", size), size
		if size == 0 {
			c.Name = contiguous
		}
		c.Lens[0] -= c.Lens[0] % max(size, 1)
		cases = append(cases, c)
		if size == 16 { // as a cache that nothing has left yet hands them out
			c.Name, c.InOrder = c.Name+inOrder, true
			cases = append(cases, c)
		}
	}
	return inTurns(cases, contiguous)
}

func invariantCases(bytes int) []Case {
	var cases []Case
	for _, batch := range []int{1, 64} {
		free := Grouped(kv.F16, 4, 128, bytes)
		free.Lens = slices.Repeat([]int{free.Lens[0] / batch}, batch)
		free.Turns = fmt.Sprintf("%d × %d keys", batch, free.Lens[0])
		invariant := free
		free.Name, invariant.Name = free.Turns+", free", free.Turns+", invariant"
		invariant.Invariant, invariant.Against = true, free.Name
		cases = append(cases, free, invariant)
	}
	return cases
}

// peerCases are what other implementations are timed on, too: at most 64K keys,
// fewer where they do not fit.
func peerCases(bytes int) []Case {
	var cases []Case
	for _, dtype := range []kv.DType{kv.F32, kv.F16, kv.BF16, kv.I8} {
		c := Grouped(dtype, 4, 128, bytes)
		c.Lens[0] = min(c.Lens[0], 65536)
		c.Name = fmt.Sprintf("%v, 32/8 heads, %d keys, dim 128", dtype, c.Lens[0])
		cases = append(cases, c)
	}
	return cases
}

func threadCases(bytes int) []Case {
	c := Grouped(kv.F16, 4, 128, bytes)
	c.Name = fmt.Sprintf("%v, group 4, %d keys, dim 128", c.DType, c.Lens[0])
	return inTurns([]Case{c}, "")
}
