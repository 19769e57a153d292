package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// suiteRows are the rows of a suite.
func suiteRows(rows []map[string]any, suite string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(rows), func(row map[string]any) bool { return row["suite"] != suite })
}

// TestBenchModel: a row a context, number of threads and way, of weights, keys and values together; and before
// them one a prompt.
func TestBenchModel(t *testing.T) {
	rows := objects(t, want(t, exitDone, "bench", "--model="+goldenModels+"gemma3", "--contexts=40,8", "--rounds=2", "--json").stdout)
	checkPrompts(t, suiteRows(rows, "prompt"))
	rows = suiteRows(rows, "model")
	at := map[[2]any]int{}
	kvBytes := map[any]any{}
	for _, row := range rows {
		number := func(name string) float64 { return row[name].(float64) }
		at[[2]any{row["impl"], row["len"]}]++
		kvBytes[row["len"]] = row["kv_bytes"]
		if row["suite"] != "model" || row["model"] != "gemma3" || number("weight_bytes") <= 0 || number("kv_bytes") <= 0 {
			t.Errorf("a row that does not say what was measured: %v", row)
		}
		if rate := number("bytes_per_second"); rate != (number("weight_bytes")+number("kv_bytes"))/number("seconds") || number("tokens_per_second") != 1/number("seconds") ||
			number("share") <= 0 || number("ceiling_bytes_per_second") <= 0 {
			t.Errorf("rates do not belong together: %v", row)
		}
	}
	for _, impl := range []string{"flashdec", "unsplit"} {
		for _, context := range []float64{8, 40} {
			if n := at[[2]any{impl, context}]; n < 1 || n > 2 {
				t.Errorf("%d rows of %s at %v tokens, want one a number of threads", n, impl, context)
			}
		}
	}
	// All of gemma3's layers slide: beyond its window of 16 nothing is read.
	if two := kvBytes[8.0].(float64) * 2; kvBytes[40.0] != two {
		t.Errorf("%v bytes of keys and values at 40 tokens, want the 16 that are seen, %v", kvBytes[40.0], two)
	}
	if rows[0]["len"] != 8.0 {
		t.Errorf("the first row is of %v tokens, want the least", rows[0]["len"])
	}
}

// checkPrompts: prompts of 8 and of 40 tokens are held against their multiply-adds.
func checkPrompts(t *testing.T, rows []map[string]any) {
	t.Helper()
	adds := map[any]float64{}
	for _, row := range rows {
		number := func(name string) float64 { return row[name].(float64) }
		adds[row["len"]] = number("multiply_adds")
		if row["model"] != "gemma3" || row["impl"] != "flashdec" || row["q_len"] != row["len"] || number("tokens_per_second") != number("len")/number("seconds") ||
			!(number("share") > 0) {
			t.Errorf("a row of a prompt: %v", row)
		}
	}
	if len(adds) != 2 || adds[8.0] < 1 || adds[40.0] <= 4*adds[8.0] {
		t.Errorf("multiply-adds by length are %v, want those of 8 and five times as many of 40, but for the logits", adds)
	}
}

func TestBenchModelForms(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "a.svg")
	text := want(t, exitDone, "bench", "--model="+goldenModels+"qwen3", "--contexts=8,16", "--rounds=1", "--threads=1", "--plot="+plot).stdout
	for _, say := range []string{"qwen3", "reading a prompt", "of multiply-adds alone", "decoding", "tokens/s", "of ceiling", "unsplit", "16"} {
		if !strings.Contains(text, say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
	if picture, err := os.ReadFile(plot); err != nil || !strings.Contains(string(picture), "tokens a second") {
		t.Errorf("the picture: %v, %d bytes", err, len(picture))
	}
}

// TestBenchModelOnGPU: rows of a GPU's, beside a bare read of its memory.
func TestBenchModelOnGPU(t *testing.T) {
	if !slices.Contains(backendsHere(t), "cuda") {
		t.Skip("no GPU")
	}
	rows := objects(t, want(t, exitDone, "bench", "--model="+goldenModels+"gemma2", "--backend=cuda", "--contexts=40", "--rounds=2", "--json").stdout)
	decoded := suiteRows(rows, "model")
	if len(decoded) != 2 || len(rows) != 3 {
		t.Fatalf("%d rows, want one of a prompt, one of flashdec and one of unsplit", len(rows))
	}
	for _, row := range decoded {
		if row["backend"] != "cuda" || row["threads"] != 0.0 || row["weight_bytes"].(float64) <= 0 || row["ceiling_bytes_per_second"].(float64) <= 0 {
			t.Errorf("a row that does not say what was measured: %v", row)
		}
	}
}

// TestBenchModelPeer measures a peer that answers with a fixed time.
func TestBenchModelPeer(t *testing.T) {
	t.Setenv("FLASHDEC_TEST_PEER", "1")
	peers := 0
	for _, row := range objects(t, want(t, exitDone, "bench", "--model="+goldenModels+"qwen3", "--contexts=8", "--rounds=2", "--threads=1", "--json", "--peer="+os.Args[0]).stdout) {
		if row["impl"] == "abacus" {
			peers++
			rate := map[any]float64{"prompt": 8 / 0.5, "model": 1 / 0.5}[row["suite"]]
			if row["tokens_per_second"] != rate || row["seconds"] != 0.5 || row["kv_dtype"] != "beads" || row["kv_bytes"] != 500.0 {
				t.Errorf("the peer's row is %v", row)
			}
		}
	}
	if peers != 2 {
		t.Errorf("%d rows of the peer, want one of the prompt and one of decoding", peers)
	}
}

func TestBenchModelRefuses(t *testing.T) {
	for _, tc := range []struct{ flag, says string }{
		{"--model=no-such-model", "no-such-model"},
		{"--contexts=0", "--contexts has 0"},
		{"--contexts=", "--contexts"},
		{"--kv-dtype=f7", "--kv-dtype"},
		{"--contexts=8,999999", "--contexts has 999999, want at most 512, the model's context"},
		{"--prompts=-1", "--prompts has -1, want 1 to 1048576, or 0 alone"},
		{"--prompts=0,8", "--prompts has 0, want 1 to 1048576, or 0 alone"},
		{"--prompts=999999", "--prompts has 999999, want at most 512, the model's context"},
		{"--suite=types", "--suite is for suites, but --model"},
		{"--match=f16", "--match is for suites, but --model"},
		{"--mb=64", "--mb is for suites, but --model"},
		{"--no-tuned", "--tuned is for suites, but --model"},
	} {
		if got := want(t, exitBadInput, "bench", "--model="+goldenModels+"qwen3", "--rounds=1", tc.flag); !strings.Contains(got.errs, tc.says) {
			t.Errorf("%s: %q, want it to say %q", tc.flag, got.errs, tc.says)
		}
	}
}

// TestModelLengths: contexts and prompts that the model has and memory has room for, before anything is filled.
func TestModelLengths(t *testing.T) {
	for _, tc := range []struct {
		contexts, asked           []int
		any                       bool
		wantContexts, wantPrompts []int
	}{
		{contexts: []int{512, 1024, 128}, any: true, wantContexts: []int{128, 512}, wantPrompts: []int{128, 512}},
		{contexts: []int{1024}, any: true, wantContexts: []int{512}, wantPrompts: []int{512}}, // the model's, where it has none of the others
		{contexts: []int{256}, asked: []int{64, 8}, wantContexts: []int{256}, wantPrompts: []int{8, 64}},
		{contexts: []int{256}, asked: []int{0}, wantContexts: []int{256}},
	} {
		cmd := &benchCmd{Model: goldenModels + "qwen3", KVDType: "f16", Rounds: 1, Contexts: tc.contexts, Prompts: tc.asked, anyContexts: tc.any}
		contexts, prompts, err := cmd.modelLengths(2, math.MaxInt)
		if err != nil || !slices.Equal(contexts, tc.wantContexts) || !slices.Equal(prompts, tc.wantPrompts) {
			t.Errorf("%v and %v: contexts %v, prompts %v, %v, want %v and %v", tc.contexts, tc.asked, contexts, prompts, err, tc.wantContexts, tc.wantPrompts)
		}
	}
	for _, cmd := range []*benchCmd{{Contexts: []int{256}}, {Contexts: []int{8}, Prompts: []int{256}}} {
		cmd.Model, cmd.KVDType, cmd.Rounds = goldenModels+"qwen3", "f16", 1
		if _, _, err := cmd.modelLengths(2, 100_000); err == nil || !strings.Contains(err.Error(), "has 256, which takes") || !strings.Contains(err.Error(), "want at most 100.0 kB, what is free") {
			t.Errorf("contexts %v, prompts %v: %v, want that memory has no room", cmd.Contexts, cmd.Prompts, err)
		}
	}
}

// TestBenchReachesAsFarAsTheModel: what rotary scaling stretches a context to may be asked for, and no more; without being
// asked, a bench goes no further than what the model was made for.
func TestBenchReachesAsFarAsTheModel(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"llama3_rope")); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "config.json"), `"original_max_position_embeddings": 64`, `"original_max_position_embeddings": 512`)
	rewrite(t, filepath.Join(dir, "config.json"), `"rope_type": "llama3"`, `"rope_type": "yarn"`)
	const reach = 8 * 512
	for _, tc := range []struct {
		contexts, want []int
		any            bool
	}{
		{contexts: []int{reach}, want: []int{reach}},
		{contexts: []int{reach + 1}},
		{contexts: []int{256, reach}, any: true, want: []int{256}},
	} {
		cmd := &benchCmd{Model: dir, KVDType: "f16", Rounds: 1, Contexts: tc.contexts, Prompts: []int{8}, anyContexts: tc.any}
		got, _, err := cmd.modelLengths(2, math.MaxInt)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.want != nil) || err != nil && !strings.Contains(err.Error(), "want at most 4096") {
			t.Errorf("contexts %v: %v, %v, want %v", tc.contexts, got, err, tc.want)
		}
	}
	row := objects(t, want(t, exitDone, "bench", "--model", dir, "--contexts=600", "--prompts=0", "--rounds=1", "--threads=1", "--json").stdout)[0]
	if row["len"] != 600.0 {
		t.Errorf("%v, want a step that sees 600 tokens", row)
	}
}

// TestFreeMemory reads what Linux tells; elsewhere nothing is too much.
func TestFreeMemory(t *testing.T) {
	for text, want := range map[string]int{
		"MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:   24601 kB\n": 24601 << 10, "MemTotal: 9 kB\n": math.MaxInt, "MemAvailable: many kB\n": math.MaxInt,
		"MemAvailable: 9223372036854775807 kB\n": math.MaxInt,
	} {
		if got := availableIn(text); got != want {
			t.Errorf("%q: %d bytes, want %d", text, got, want)
		}
	}
}
