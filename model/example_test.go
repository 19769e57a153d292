package model_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/sample"
	"github.com/flashdec/flashdec/token"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Generate from Go: text to ids, ids to logits, logits to the next id, and ids back
// to text. This model's weights are random, so it repeats itself; it has no tokenizer
// and borrows one, where others have token.FromFolder(os.DirFS(path)) read theirs, or of a GGUF file
// token.FromGGUF(m.GGUF().Metadata).
func Example() {
	eng, err := flashdec.Open(flashdec.Options{})
	check(err)
	defer eng.Close()
	m, err := model.Open("testdata/golden/gemma3") // or a GGUF file
	check(err)
	defer m.Close()
	runner, err := model.NewRunner(m, model.Options{Engine: eng})
	check(err)
	defer runner.Close()
	vocabulary, err := os.ReadFile("../token/testdata/unigram.tokenizer.json")
	check(err)
	words, err := token.FromTokenizerJSON(vocabulary)
	check(err)
	chain, err := sample.New(m.Config().VocabSize, sample.Options{}) // greedy
	check(err)

	ctx, seq, logits := context.Background(), runner.NewSequence(), make([]float32, m.Config().VocabSize)
	ids, err := words.Encode("Hello")
	check(err)
	check(seq.Feed(ctx, ids, logits, nil)) // the prompt, a batch at a time
	fmt.Print("Hello")
	text := words.Stream() // bytes of a character wait until it is whole
	for range 8 {
		id, err := chain.Next(logits)
		check(err)
		if words.IsEnd(id) {
			break
		}
		fmt.Print(text.Next(id))
		check(runner.Forward(ctx, model.Part{Seq: seq, IDs: []int{id}, Logits: logits}))
	}
	fmt.Printf("%s\n%d tokens of the prompt, %d in all\n", text.Flush(), len(ids), seq.Len())
	// Output:
	// Hellololololololololo
	// 4 tokens of the prompt, 12 in all
}

// Several answers to one prompt: it is read and kept once. The answers go on in one batch, each from its own first
// token.
func ExampleSequence_Fork() {
	eng, err := flashdec.Open(flashdec.Options{})
	check(err)
	defer eng.Close()
	m, err := model.Open("testdata/golden/llama3_rope")
	check(err)
	defer m.Close()
	// Room for two whole contexts is plenty: the three answers share the prompt's pages.
	runner, err := model.NewRunner(m, model.Options{Engine: eng, MaxSequences: 2, PageSize: 16})
	check(err)
	defer runner.Close()

	ctx, prompt, vocab := context.Background(), runner.NewSequence(), m.Config().VocabSize
	next := make([]float32, vocab)
	check(prompt.Feed(ctx, make([]int, 40), next, nil)) // two pages of 16 tokens and a half
	alone := runner.KVBytes()
	answers, draw, text := make([]model.Part, 3), make([]*sample.Chain, 3), make([][]int, 3)
	say := func(i int, logits []float32) { // draws the answer's next token
		id, err := draw[i].Next(logits)
		check(err)
		text[i] = append(text[i], id)
		answers[i].IDs = []int{id}
	}
	for i := range answers {
		answers[i].Seq, err = prompt.Fork()
		check(err)
		answers[i].Logits = make([]float32, vocab)
		draw[i], err = sample.New(vocab, sample.Options{Temperature: 1, Seed: uint64(i)})
		check(err)
		say(i, next) // the prompt's logits are those of every answer's first token
	}
	check(prompt.Free()) // its forks have what they need
	for range 3 {
		check(runner.Forward(ctx, answers...))
		for i := range answers {
			say(i, answers[i].Logits)
		}
	}
	fmt.Printf("%d answers: %v\n", len(text), text)
	fmt.Printf("%.2f times the memory of the prompt\n", float64(runner.KVBytes())/float64(alone))
	// Output:
	// 3 answers: [[221 286 151 217] [31 128 30 247] [364 348 325 106]]
	// 1.67 times the memory of the prompt
}
