package model

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flashdec/flashdec/gguf"
)

// FuzzConfig: no config.json panics, and what is accepted is within its bounds.
func FuzzConfig(f *testing.F) {
	paths, err := filepath.Glob("testdata/golden/*/config.json")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden models: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_hidden_layers":2},"eos_token_id":[1,106]}`))
	f.Add([]byte(`{"model_type":"llama","num_hidden_layers":1099511627776,"rope_scaling":{"type":"llama3","factor":8}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h huggingFace
		if json.Unmarshal(data, &h) != nil {
			return
		}
		c, err := h.config()
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is not %v", err, ErrConfig)
			}
			return
		}
		requireSound(t, c)
	})
}

// requireSound holds an accepted configuration to what is computed with it.
func requireSound(t *testing.T, c *Config) {
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	shape := c.Shape()
	if err := shape.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.ropes {
		if len(r.Frequencies) != c.HeadDim/2 {
			t.Fatalf("%d rotary frequencies for a head of %d", len(r.Frequencies), c.HeadDim)
		}
	}
}

// FuzzGGUFModel: no file panics the loader.
func FuzzGGUFModel(f *testing.F) {
	data, err := os.ReadFile("../gguf/testdata/quantised.gguf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, path := range []string{"testdata/small.gguf"} { // testdata/small.py
		if data, err = os.ReadFile(path); err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		c, err := readGGUF(file)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is not %v", err, ErrConfig)
			}
			return
		}
		requireSound(t, c)
		m, err := (&Model{config: *c, source: ggufSource(file), file: file}).load("fuzz", namer{family: c.family, gguf: true})
		if err != nil {
			if !errors.Is(err, ErrWeight) && !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is neither %v nor %v", err, ErrWeight, ErrConfig)
			}
			return
		}
		requireSound(t, &m.config)
	})
}
