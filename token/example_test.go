package token_test

import (
	"fmt"

	"github.com/flashdec/flashdec/token"
)

// A vocabulary as small as can be: the bytes of "héllo", and three merges.
const tiny = `{
  "model": {
    "type": "BPE",
    "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "Ã": 4, "©": 5, "ll": 6, "llo": 7},
    "merges": ["l l", "ll o"]
  },
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"},
  "added_tokens": [{"id": 8, "content": "<|end|>", "special": true}]
}`

func Example() {
	t, err := token.FromTokenizerJSON([]byte(tiny))
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := t.Encode("héllo")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ids, t.Decode(ids))

	stream := t.Stream() // é is two tokens, and comes when it is whole
	for _, id := range append(ids, 8) {
		fmt.Printf("%q ", stream.Next(id))
	}
	fmt.Printf("%q\n", stream.Flush())
	// Output:
	// [0 4 5 7] héllo
	// "h" "" "é" "llo" "" ""
}

// A GGUF file has its vocabulary in its metadata: gguf.File.Metadata, of a model m that is open m.GGUF().Metadata.
func ExampleFromGGUF() {
	t, err := token.FromGGUF(map[string]any{
		"tokenizer.ggml.model":        "llama", // SentencePiece's BPE
		"tokenizer.ggml.tokens":       []string{"<unk>", "<s>", "</s>", "<0x62>", "▁", "a", "▁a"},
		"tokenizer.ggml.scores":       []float32{0, 0, 0, 0, -1, -2, -3},
		"tokenizer.ggml.token_type":   []int32{2, 3, 3, 6, 1, 1, 1},
		"tokenizer.ggml.bos_token_id": uint32(1),
		"tokenizer.ggml.eos_token_id": uint32(2),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := t.Encode("ab a")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v %q\n", ids, t.Decode(ids))
	// Output:
	// [6 3 6] "ab a"
}
