package gguf_test

import (
	"fmt"
	"log"

	"github.com/flashdec/flashdec/gguf"
)

// Rows of quantised tensors are read as float32, one at a time.
func Example() {
	f, err := gguf.Open("testdata/quantised.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println("architecture:", f.Metadata["general.architecture"])
	for _, name := range []string{"F32", "Q4_0", "Q6_K"} { // of f.Tensors
		t, ok := f.Tensor(name)
		if !ok {
			log.Fatalf("no tensor %q", name)
		}
		row := make([]float32, t.Columns())
		if err := t.Row(row, t.Rows()-1); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: %d bytes, the last row begins with %.3f\n", t.Type, len(t.Data), row[:2])
	}
	// Output:
	// architecture: test
	// F32: 40 bytes, the last row begins with [-0.293 1.105]
	// Q4_0: 108 bytes, the last row begins with [-0.050 0.029]
	// Q6_K: 1260 bytes, the last row begins with [-12.043 8.602]
}
