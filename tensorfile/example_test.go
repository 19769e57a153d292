package tensorfile_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/flashdec/flashdec/tensorfile"
)

// A tensor is written, and read where it lies in the mapped file.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "step.safetensors")
	lse := tensorfile.Tensor{Name: "lse", DType: tensorfile.F32, Shape: []int{1, 3}, Data: tensorfile.Bytes([]float32{0.5, 1, 2})}
	if err := tensorfile.Write(path, []tensorfile.Tensor{lse}, map[string]string{"scale": "0.125"}); err != nil {
		log.Fatal(err)
	}

	f, err := tensorfile.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close() // tensors and views end with it
	for _, t := range f.Tensors {
		x, err := tensorfile.View[float32](t)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Name, t.DType, t.Shape, x)
	}
	fmt.Println(f.Metadata)
	// Output:
	// lse F32 [1 3] [0.5 1 2]
	// map[scale:0.125]
}
