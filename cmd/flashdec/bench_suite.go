package main

import (
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/kv"
)

// benchTypes are the element types of the suite types.
var benchTypes = []kv.DType{kv.F32, kv.F16, kv.BF16, kv.I8, kv.F8E4M3, kv.F8E5M2, kv.I4}

// suites are the named sets of cases, for so many bytes of keys and values.
var suites = map[string]func(bytes int) []benchCase{
	"types": suiteTypes, "lengths": suiteLengths, "decode": suiteDecode, "blog": suiteBlog,
	"ragged": suiteRagged, "window": suiteWindow, "pages": suitePages, "invariant": suiteInvariant,
}

func suiteNames() []string {
	var names []string
	for name := range suites {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// grouped is one sequence on 8 KV heads that takes all the bytes there are.
func grouped(dtype kv.DType, group, dim, bytes int) benchCase {
	c := benchCase{heads: 8 * group, kvHeads: 8, dim: dim, queries: 1, dtype: dtype}
	c.lens = []int{bytes / (2 * c.kvHeads * c.rowBytes())}
	return c
}

// suiteTypes: each type × groups 1, 4, 7, 8 × head dims 128 and 64.
func suiteTypes(bytes int) []benchCase {
	var cases []benchCase
	for _, dim := range []int{128, 64} {
		for _, dtype := range benchTypes {
			for _, group := range []int{1, 4, 7, 8} {
				c := grouped(dtype, group, dim, bytes)
				c.name = fmt.Sprintf("%v, group %d, dim %d", dtype, group, dim)
				cases = append(cases, c)
			}
		}
	}
	return cases
}

// suiteLengths: one sequence of 1K keys to 1M.
func suiteLengths(int) []benchCase {
	var cases []benchCase
	for n := 1 << 10; n <= 1<<20; n *= 4 {
		c := benchCase{heads: 8, kvHeads: 2, dim: 128, lens: []int{n}, queries: 1, dtype: kv.F16}
		c.name = fmt.Sprintf("%d keys", n)
		cases = append(cases, c)
	}
	return cases
}

// suiteDecode: shapes of models in use, as far as they fit.
func suiteDecode(bytes int) []benchCase {
	var cases []benchCase
	for _, s := range [][5]int{
		{1, 32, 8, 1024, 128},
		{1, 32, 8, 4096, 128},
		{1, 32, 8, 16384, 128},
		{1, 32, 8, 65536, 128},
		{1, 32, 8, 131072, 128},
		{1, 64, 8, 16384, 128},
		{1, 32, 32, 4096, 128},
		{16, 32, 8, 4096, 128},
		{64, 32, 8, 4096, 128},
		{128, 32, 8, 1024, 128},
		{1, 9, 3, 8192, 64},
		{8, 16, 2, 32768, 256},
	} {
		c := benchCase{heads: s[1], kvHeads: s[2], dim: s[4], lens: slices.Repeat([]int{s[3]}, s[0]), queries: 1, dtype: kv.BF16}
		c.name = fmt.Sprintf("batch %d, %d/%d heads, %d keys, dim %d", s[0], s[1], s[2], s[3], s[4])
		if c.kvBytes() <= bytes {
			cases = append(cases, c)
		}
	}
	return cases
}

// suiteBlog: the table that Flash-Decoding was published with, the same bytes cut
// into ever fewer and longer sequences. Its promise is that the time stays.
func suiteBlog(int) []benchCase {
	var cases []benchCase
	for _, s := range [][2]int{{256, 256}, {128, 512}, {64, 1024}, {32, 2048}, {16, 4096}, {8, 8192}, {4, 16384}, {2, 32768}, {1, 65536}, {1, 131072}} {
		c := benchCase{heads: 16, kvHeads: 2, dim: 128, lens: slices.Repeat([]int{s[1]}, s[0]), queries: 1, dtype: kv.F16}
		c.name = fmt.Sprintf("%d × %d keys", s[0], s[1])
		cases = append(cases, c)
	}
	return cases
}

// suiteRagged: the same bytes as one sequence, as 64, and as one long among 63
// short ones.
func suiteRagged(bytes int) []benchCase {
	one := grouped(kv.F16, 4, 128, bytes)
	n := one.lens[0]
	many, mixed := one, one
	one.name = fmt.Sprintf("1 × %d keys", n)
	many.name, many.lens = fmt.Sprintf("64 × %d keys", n/64), slices.Repeat([]int{n / 64}, 64)
	mixed.pageSize = 16
	mixed.lens = append([]int{n / 2}, slices.Repeat([]int{n / 128}, 63)...)
	mixed.name = fmt.Sprintf("1 × %d + 63 × %d keys, pages of 16", n/2, n/128)
	return []benchCase{one, many, mixed}
}

// suiteWindow: a window of 1024 costs 1024 keys, however long the cache.
func suiteWindow(bytes int) []benchCase {
	all := grouped(kv.F16, 4, 128, bytes/4)
	windowed, short := all, all
	all.name = fmt.Sprintf("%d keys", all.lens[0])
	windowed.name, windowed.window = fmt.Sprintf("window 1024 of %d keys", all.lens[0]), 1024
	short.name, short.lens = "1024 keys", []int{1024}
	return []benchCase{all, windowed, short}
}

// suitePages: pages in random order against contiguous tensors.
func suitePages(bytes int) []benchCase {
	var cases []benchCase
	for _, size := range []int{0, 1, 16, 64, 256} {
		c := grouped(kv.F16, 4, 128, bytes)
		c.name, c.pageSize = fmt.Sprintf("pages of %d", size), size
		if size == 0 {
			c.name = "contiguous"
		}
		cases = append(cases, c)
	}
	return cases
}

// suiteInvariant: split borders that ignore batch and width, against free ones.
func suiteInvariant(bytes int) []benchCase {
	var cases []benchCase
	for _, batch := range []int{1, 64} {
		for _, invariant := range []bool{false, true} {
			c := grouped(kv.F16, 4, 128, bytes)
			c.lens = slices.Repeat([]int{c.lens[0] / batch}, batch)
			c.invariant = invariant
			c.name = fmt.Sprintf("%d × %d keys, %s", batch, c.lens[0], map[bool]string{false: "free", true: "invariant"}[invariant])
			cases = append(cases, c)
		}
	}
	return cases
}
