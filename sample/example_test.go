package sample_test

import (
	"fmt"

	"github.com/flashdec/flashdec/sample"
)

// A chain draws ids, and a Stop cuts the text where a stop string begins.
func Example() {
	chain, err := sample.New(4, sample.Options{Temperature: 0.7, TopK: 2, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	words := []string{" no", " yes", " sure", "\nQ:"}
	chain.Observe(0) // the prompt's ids
	id, err := chain.Next([]float32{-1, 9, 2, 0})
	if err != nil {
		fmt.Println(err)
		return
	}

	stop, err := sample.NewStop("\n\nQ")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, piece := range []string{"A:", words[id], ".\n", "\nQ: and"} {
		text, stopped := stop.Write(piece)
		fmt.Printf("%q %v\n", text, stopped)
	}
	// Output:
	// "A:" false
	// " yes" false
	// "." false
	// "" true
}
