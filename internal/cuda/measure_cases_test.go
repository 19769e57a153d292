package cuda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
)

// timing is one case: all sequences have the first length, unless there are
// several.
type timing struct {
	suite, name         string
	batch, hq, hkv, dim int
	lens                []int
	dtype               kv.DType
	pageSize            int // 0: each sequence is one page
	window              int
	inOrder             bool // pages lie as they are used, else in random order
	invariant           bool
	scales              kv.ScaleKind
}

func timings() []timing {
	var ts []timing
	for _, c := range bench.DecodeShapes {
		ts = append(ts, timing{
			suite: "decode", name: fmt.Sprint(c[:]), batch: c[0], hq: c[1], hkv: c[2], lens: []int{c[3]}, dim: c[4], dtype: kv.BF16,
		})
	}
	for _, c := range [][2]int{
		{256, 256},
		{128, 512},
		{64, 1 << 10},
		{32, 2 << 10},
		{16, 4 << 10},
		{8, 8 << 10},
		{4, 16 << 10},
		{2, 32 << 10},
		{1, 64 << 10},
		{1, 128 << 10},
	} {
		ts = append(ts, timing{
			suite: "blog", name: fmt.Sprintf("%dx%d", c[0], c[1]), batch: c[0], hq: 16, hkv: 2, lens: []int{c[1]}, dim: 128, dtype: kv.F16,
		})
	}
	for _, c := range []struct {
		dtype  kv.DType
		scales kv.ScaleKind
	}{{kv.BF16, kv.NoScales}, {kv.F8E4M3, kv.TensorScale}, {kv.F8E4M3, kv.TokenScale}, {kv.I8, kv.TokenScale}, {kv.I8, kv.ChannelScale}, {kv.I4, kv.TokenScale}, {kv.F32, kv.NoScales}} {
		for _, n := range typeLens() {
			ts = append(ts, timing{
				suite: "types", name: fmt.Sprintf("1x%d %v %v", n, c.dtype, c.scales), batch: 1, hq: 32, hkv: 8, lens: []int{n}, dim: 128, dtype: c.dtype, scales: c.scales,
			})
		}
	}
	ragged := append([]int{131072}, slices.Repeat([]int{1024}, 63)...)
	llama := func(suite, name string, lens []int, page, window int, invariant bool) timing {
		return timing{suite: suite, name: name, batch: len(lens), hq: 32, hkv: 8, dim: 128, lens: lens, dtype: kv.BF16, pageSize: page, window: window, invariant: invariant}
	}
	inOrder := llama("pages", "1x65536 page 16 in order", []int{65536}, 16, 0, false)
	inOrder.inOrder = true
	return append(ts,
		llama("lengths", "1x1000", []int{1000}, 0, 0, false),
		llama("lengths", "1x5000", []int{5000}, 0, 0, false),
		llama("lengths", "1x20000", []int{20000}, 0, 0, false),
		llama("lengths", "1x60000", []int{60000}, 0, 0, false),
		inOrder,
		llama("pages", "1x65536 page 16", []int{65536}, 16, 0, false),
		llama("pages", "1x65536 page 64", []int{65536}, 64, 0, false),
		llama("pages", "16x4096 page 16", slices.Repeat([]int{4096}, 16), 16, 0, false),
		llama("ragged", "128K and 63 of 1K", ragged, 16, 0, false),
		llama("window", "1024 of 128K", []int{131072}, 16, 1024, false),
		llama("window", "1024 of 1024", []int{1024}, 16, 0, false),
		llama("invariant", "1x65536", []int{65536}, 0, 0, true),
		llama("invariant", "16x4096", slices.Repeat([]int{4096}, 16), 0, 0, true),
		llama("invariant", "128K and 63 of 1K", ragged, 16, 0, true),
	)
}

// typeLens are the keys of the cases that differ in types.
func typeLens() []int {
	var lens []int
	for _, s := range strings.Split(*measureLens, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("-measure-lens: %q is no number of keys", s))
		}
		lens = append(lens, n)
	}
	return lens
}

func (c timing) lengths() []int {
	if len(c.lens) == c.batch {
		return c.lens
	}
	return slices.Repeat(c.lens, c.batch)
}

func (c timing) tokens() (n int) {
	for _, l := range c.lengths() {
		n += l
	}
	return n
}

func (c timing) kvBytes() int { return c.tokens() * c.hkv * c.dim * 2 * c.dtype.Bits() / 8 }

// bytesRead leaves out what the window hides.
func (c timing) bytesRead() int {
	if c.window > 0 {
		return c.kvBytes() / c.tokens() * min(c.window, c.tokens())
	}
	return c.kvBytes()
}
