package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/tensorfile"
)

// caseOf is a file's case, its engine, and room for results.
func caseOf(t *testing.T, f *testFile, flags *engineFlags) (*decodeCase, *decoder, *decoded) {
	t.Helper()
	c, err := openCase(t.Context(), f.write(t, t.TempDir()+"/case.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDecoder(t.Context(), c, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	got := &decoded{}
	d.take(got, c.whole())
	return c, d, got
}

// Steps of a few sequences, or of a few queries of one, give what one step gives:
// under every rule, also where a sequence has fewer keys than queries.
func TestAnyStepsGiveTheSame(t *testing.T) {
	mask := func(seqs, queries, keys int) tensorfile.Tensor {
		m := bytesOf(seqs, 1, queries, keys)
		for i := range m.Data {
			m.Data[i] = byte(i*i*31+i*7) >> 3 & 1 // rows that differ
		}
		return m
	}
	for name, change := range map[string]func(f *testFile){
		"all rules": func(*testFile) {},
		"plain": func(f *testFile) {
			clear(f.metadata)
			delete(f.tensors, "mask")
			delete(f.tensors, "alibi_slopes")
		},
		"causal with a mask a sequence": func(f *testFile) { f.tensors["mask"] = mask(3, 7, 9) },
		"not causal, with a mask":       func(f *testFile) { clear(f.metadata); delete(f.tensors, "alibi_slopes") },
		"not causal, with slopes":       func(f *testFile) { clear(f.metadata) },
		"not causal, with a window":     func(f *testFile) { f.metadata = map[string]string{"window": "2"} },
		"a mask a sequence, no other rules": func(f *testFile) {
			clear(f.metadata)
			delete(f.tensors, "alibi_slopes")
			f.tensors["mask"] = mask(3, 7, 9)
		},
	} {
		for _, flags := range []*engineFlags{{Backend: "cpu"}, {Backend: "cpu", PageSize: 2}, {Backend: "cpu", PageSize: 2, KVDType: "int4"}} {
			t.Run(fmt.Sprintf("%s/page_size=%d%s", name, flags.PageSize, flags.KVDType), func(t *testing.T) {
				f := goodFile()
				f.put("q", 3, 4, 7, 4)
				f.put("k", 3, 2, 9, 4)
				f.put("v", 3, 2, 9, 3)
				f.tensors["lens"] = ints("lens", 9, 3, 0)
				f.tensors["mask"] = mask(1, 7, 9)
				change(f)
				c, d, got := caseOf(t, f, flags)
				if err := d.decode(t.Context(), got, 2, false); err != nil {
					t.Fatal(err)
				}
				if got.steps != 1 {
					t.Fatalf("%d steps of a small case", got.steps)
				}
				j := &judge{c: c, from: d.cache.source(c), threads: 1}
				if judged, err := j.judge(t.Context(), got); err != nil || !judged.ok() {
					t.Fatalf("one step: %+v, %v", judged, err)
				}
				out, lse := slices.Clone(got.Out), slices.Clone(got.LSE)
				for _, tile := range []int{1, 2, 3} {
					steps := 0
					clear(got.Out)
					for _, p := range c.inSteps(c.whole(), 1, 2, false, tile) {
						for _, h := range c.inHeads(p, 1, 2, false) {
							if err := d.step(t.Context(), got, p, h, 2, false); err != nil {
								t.Fatal(err)
							}
							steps++
						}
					}
					want := map[bool]int{true: 3 * ((7 + tile - 1) / tile), false: 3}[c.separable()]
					if c.separable() {
						want += 3 * map[int]int{1: 7, 2: 1, 3: 1}[tile] // those of one query, by the second KV head
					}
					if steps != want {
						t.Errorf("%d steps of %d queries, want %d", steps, tile, want)
					}
					requireNear(t, got.Out, out)
					requireNear(t, got.LSE, lse)
					requireChunks(t, d, tile, out, lse)
				}
			})
		}
	}
}

// requireChunks decodes chunk by chunk, of as few queries as can be, and compares what is
// judged, written and shown with the whole case's out [seqs, queries, NumHeads, ValueDim]
// and lse.
func requireChunks(t *testing.T, d *decoder, tile int, out, lse []float32) {
	t.Helper()
	c := d.c
	var (
		got  decoded
		last newest
		sum  judgement
		j    = &judge{c: c, from: d.cache.source(c), threads: 1, keep: true}
		file = newOutput(c)
	)
	for _, chunk := range c.inChunks(1, tile) {
		d.take(&got, chunk)
		if err := d.decode(t.Context(), &got, 2, false); err != nil {
			t.Fatal(err)
		}
		judged, err := j.judge(t.Context(), &got)
		if err != nil {
			t.Fatal(err)
		}
		sum.add(judged)
		last.see(c, &got)
		file.put(&got)
		requireNear(t, got.Out, c.rowsIn(out, c.whole(), chunk, c.shape.ValueDim))
		requireNear(t, got.LSE, c.rowsIn(lse, c.whole(), chunk, 1))
	}
	if !sum.ok() || sum.direct.Err == 0 {
		t.Errorf("chunks: %+v", sum)
	}
	heads, dim := c.shape.NumHeads, c.shape.ValueDim
	requireNear(t, last.lse, lse[(c.queries-1)*heads:][:heads])
	if !slices.Equal(last.q, c.queriesOf(c.whole())[(c.queries-1)*heads*c.shape.KeyDim:][:heads*c.shape.KeyDim]) {
		t.Error("the newest query's heads are not the case's")
	}
	for i := range lse { // in the order of the engine
		seq, query, head := i/(heads*c.queries), i/heads%c.queries, i%heads
		at := (seq*heads+head)*c.queries + query
		requireNear(t, file.lse[at:][:1], lse[i:][:1])
		requireNear(t, file.out[at*dim:][:dim], out[i*dim:][:dim])
	}
}

// A wrong element in any chunk is told, also where the chunks after it are right.
func TestJudgementsAddUp(t *testing.T) {
	right, wrong := judgement{file: &verdict{}}, judgement{direct: verdict{Err: 1, share: 2}, file: &verdict{census: census{nonFinite: 3}}, hasOut: true}
	for _, order := range [][]judgement{{right, wrong}, {wrong, right}, {right, wrong, right}} {
		var sum judgement
		for _, j := range order {
			file := *j.file
			j.file = &file
			sum.add(j)
		}
		if sum.ok() || sum.direct.Err != 1 || sum.file.nonFinite != 3 {
			t.Errorf("%+v, want it to fail", sum)
		}
	}
}

// The direct softmax of a single large block ends soon after it is interrupted.
func TestDirectStops(t *testing.T) {
	f := goodFile()
	clear(f.metadata)
	clear(f.tensors)
	const queries, keys = 256, 40_000
	f.put("q", 1, 8, queries, 32)
	f.put("k", 1, 1, keys, 32)
	f.put("v", 1, 1, keys, 32)
	c, _, got := caseOf(t, f, &engineFlags{Backend: "cpu", Threads: 1})
	if c.blocks(got.piece) != 1 {
		t.Fatalf("%d blocks, want one", c.blocks(got.piece))
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := &judge{c: c, from: c.fromFile, threads: 1}
	var sent time.Time
	time.AfterFunc(50*time.Millisecond, func() {
		sent = time.Now()
		cancel()
	})
	_, err := j.judge(ctx, got)
	if took := time.Since(sent); !errors.Is(err, context.Canceled) || took > time.Second {
		t.Errorf("%v, %v after it was cancelled, want an end within a second", err, took)
	}
}

func requireNear(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if diff := got[i] - want[i]; got[i] != want[i] && !(diff > -1e-6 && diff < 1e-6) {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// Every row of the case is in one piece.
func TestStepsCoverTheCase(t *testing.T) {
	for _, c := range []struct{ seqs, queries, room, splits, tile int }{
		{1, 1, 1 << 20, 0, 16}, {5, 1, 1, 0, 16}, {5, 40, 1, 64, 16}, {100, 1, 20000, 4, 16}, {3, 100, 400000, 64, 16}, {2, 5, 1, 3, 0}, {0, 3, 1, 0, 16}, {3, 0, 1, 0, 16},
	} {
		x := &decodeCase{seqs: c.seqs, queries: c.queries, lens: slices.Repeat([]int{1000}, c.seqs)}
		x.shape = attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 8, ValueDim: 8}
		seen := make([]int, c.seqs*c.queries)
		for _, p := range x.inSteps(x.whole(), c.room, c.splits, false, c.tile) {
			for seq := p.seq; seq < p.seq+p.seqs; seq++ {
				for query := p.query; query < p.query+p.queries; query++ {
					seen[seq*c.queries+query]++
				}
			}
		}
		if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
			t.Errorf("%+v: row %d is in %d pieces", c, i, seen[i])
		}
	}
}

// A result is judged in blocks of queries: a wrong element in any is found, and
// nothing else is.
func TestJudgeInBlocks(t *testing.T) {
	f := goodFile()
	queries := 2*blockElements/(2*64) + 5 // three blocks a part
	f.put("q", 1, 4, queries, 64)
	f.put("k", 1, 2, 5, 64)
	f.put("v", 1, 2, 5, 64)
	delete(f.tensors, "lens")
	delete(f.tensors, "mask")
	delete(f.tensors, "alibi_slopes")
	c, d, got := caseOf(t, f, &engineFlags{Backend: "cpu"})
	if err := d.decode(t.Context(), got, 0, false); err != nil {
		t.Fatal(err)
	}
	if c.blocks(c.whole()) != 6 {
		t.Fatalf("%d blocks, want 3 of each of 2 parts", c.blocks(c.whole()))
	}
	j := &judge{c: c, from: c.fromFile, threads: 2, keep: true}
	if judged, err := j.judge(t.Context(), got); err != nil || !judged.ok() {
		t.Fatalf("%+v, %v", judged, err)
	}
	if len(j.kept) != 6 || j.kept[5].Out == nil {
		t.Errorf("%d references kept, want all 6", len(j.kept))
	}
	for i := 0; i < len(got.Out); i += len(got.Out)/97 + 1 {
		got.Out[i] += 1
		if judged, err := j.judge(t.Context(), got); err != nil || judged.ok() || judged.direct.Err < 0.9 {
			t.Fatalf("element %d off by 1: %+v, %v", i, judged.direct, err)
		}
		got.Out[i] -= 1
	}
}
