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
