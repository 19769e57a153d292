package model

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/internal/network"
)

// Model is a loaded model. Its weights lie in mapped files. It may be used by several runners at once.
type Model struct {
	config  Config
	network *network.Network
	source  *source
	file    *gguf.File // nil for a folder

	mu      sync.Mutex
	runners int // that are open
	closed  bool
}

// Open loads a Hugging Face folder (config.json with model.safetensors or shards and their index) or a
// GGUF file. The files must keep their length while the model is open: what was cut off is
// [tensorfile.ErrCut] of who needs it.
//
// Errors name the path, and wrap ErrConfig, ErrWeight, or those of tensorfile, gguf and os.
func Open(path string) (_ *Model, err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path)
	}
	return openGGUF(path)
}

func openFolder(dir string) (*Model, error) {
	cfg, err := readHuggingFace(dir)
	if err != nil {
		return nil, err
	}
	source, err := folderSource(dir)
	if err != nil {
		return nil, err
	}
	return (&Model{config: *cfg, source: source}).load(dir, namer{family: cfg.family, prefix: prefixOf(source)})
}

// prefixOf is what the names of a text model's tensors begin with: models of several modalities put theirs
// in front.
func prefixOf(s *source) string {
	const usual = "model."
	for _, prefix := range []string{usual, "language_model.model.", "model.language_model."} {
		if _, ok := s.tensors[prefix+usualNames[embedding].huggingFace]; ok {
			return prefix
		}
	}
	return usual
}

func openGGUF(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	cfg, err := readGGUF(f)
	if err != nil {
		_ = f.Close() // err is the failure to report
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return (&Model{config: *cfg, source: ggufSource(f), file: f}).load(path, namer{family: cfg.family, gguf: true})
}

// load finds the weights, and closes the model where one is not usable.
func (m *Model) load(path string, names namer) (*Model, error) {
	l := &loader{cfg: &m.config, source: m.source, names: names}
	n, err := l.load()
	if err == nil {
		err = m.config.validate()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.source.close())
	}
	m.network = n
	return m, nil
}

// divideFrequencies applies a file's own rotary factors to layers that see all keys.
func (c *Config) divideFrequencies(by []float32) {
	for i, d := range by {
		c.ropes[full].Frequencies[i] /= float64(d)
	}
}

// Config describes the model.
func (m *Model) Config() *Config {
	if m == nil {
		return new(Config)
	}
	return &m.config
}

// GGUF is the model's file, for what else it holds, such as a tokenizer; nil for a folder.
func (m *Model) GGUF() *gguf.File {
	if m == nil {
		return nil
	}
	return m.file
}

// WeightBytes is the size of the weights that one token reads: of the embedding one row, unless it is
// the head too, and of a mixture the experts that a token takes.
func (m *Model) WeightBytes() int {
	if m == nil || m.network == nil {
		return 0
	}
	return m.network.WeightBytes()
}

// MultiplyAdds is how many a prompt of so many tokens takes, with the logits of its last.
func (m *Model) MultiplyAdds(tokens int) int64 {
	if m == nil || m.network == nil {
		return 0
	}
	return m.network.MultiplyAdds(tokens)
}

// Close unmaps the files. While runners of the model are open it does not, and returns an error that
// wraps ErrInput, as it does when the model is closed already.
func (m *Model) Close() error {
	if m == nil || m.source == nil {
		return fmt.Errorf("%w: the model was never opened", ErrInput)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("%w: the model is closed", ErrInput)
	case m.runners > 0:
		return fmt.Errorf("%w: %d of the model's runners are open", ErrInput, m.runners)
	}
	m.closed = true
	return m.source.close()
}

// hold counts one more runner. It wraps ErrInput.
func (m *Model) hold() error {
	if m == nil || m.network == nil {
		return fmt.Errorf("%w: the model was never opened", ErrInput)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%w: the model is closed", ErrInput)
	}
	m.runners++
	return nil
}

// drop counts one runner less.
func (m *Model) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runners--
}
