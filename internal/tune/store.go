// Package tune measures what this machine's constants are, and keeps them.
//
//	store.go   the files that hold them
//	grid.go    the constants that are tried, and the steps they are tried on
//	search.go  the measuring, and the choice
package tune

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flashdec/flashdec/internal/plainjson"
	"github.com/flashdec/flashdec/internal/whole"
	"github.com/flashdec/flashdec/plan"
)

// Key is what constants hold for: a machine, and a class of shapes.
type Key struct {
	Device   string `json:"device"` // as backend.Info has it, and the next two
	Backend  string `json:"backend"`
	Kernel   string `json:"kernel"`
	Threads  int    `json:"threads"`
	KeyDim   int    `json:"key_dim"`
	ValueDim int    `json:"value_dim"`
	Group    int    `json:"group"`   // query heads a KV head
	KVBits   int    `json:"kv_bits"` // of an element of keys
}

// Entry is what was found for a key.
type Entry struct {
	Version int `json:"version"`
	Key
	MinKeysPerSplit int `json:"min_keys_per_split"` // see plan.Config; 0: what is built in
	HelperWork      int `json:"helper_work"`        // see flashdec.Options; 0: what is built in
	// Saved is the part of the built-in constants' time that these save, in the
	// geometric mean of the steps measured.
	Saved float64 `json:"saved"`
	// Noise is how far Saved may be off, by how much the rounds of measuring differed: two standard errors.
	Noise float64 `json:"noise"`
	Tuned string  `json:"tuned"` // the day, such as 2026-11-30
}

// Uncertain tells that by chance another choice might have been made: what was chosen may save nothing, or what is built
// in may be worse than something else by more than is worth a choice.
func (e *Entry) Uncertain() bool { return e.Noise > max(e.Saved, worthIt) }

// version is raised when entries change their meaning, or when kernels change so
// much that old ones are worth nothing.
const version = 1

// Bounds of what is believed.
const (
	maxFile       = 1 << 14 // bytes
	maxFiles      = 1 << 12 // in a folder
	maxMinKeys    = 1 << 20
	maxHelperWork = 1 << 30
)

// ErrDamaged is wrapped where a file does not hold what it should: the caller
// goes on without it.
var ErrDamaged = errors.New("no use")

// Dir is the folder of this user's files.
func Dir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "flashdec"), nil
}

const (
	prefix = "tuned-"
	suffix = ".json"
)

// path is the file of a key. Each has its own, so that two processes that tune
// different classes do not undo each other's work.
func (k Key) path(dir string) string {
	text, _ := json.Marshal(k) // a struct of strings and ints
	sum := sha256.Sum256(text)
	return filepath.Join(dir, prefix+hex.EncodeToString(sum[:12])+suffix)
}

// Save writes an entry, whole or not at all. The last of several writers wins.
func Save(dir string, e Entry) error {
	e.Version = version
	if err := e.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return whole.Write(e.path(dir), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "\t")
		return encoder.Encode(e)
	})
}

// Load reads a key's entry. found is false, and err nil, where there is none. An
// error that wraps ErrDamaged is about the file's content.
func Load(dir string, k Key) (e Entry, found bool, err error) {
	path := k.path(dir)
	e, err = read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, false, nil
	}
	if err == nil && e.Key != k {
		err = fmt.Errorf("%s: %w: it is about %+v, want %+v", path, ErrDamaged, e.Key, k)
	}
	if err != nil {
		return Entry{}, false, err
	}
	return e, true, nil
}

// List reads all entries, by device and then by shape, and says which files are
// of no use.
func List(dir string) (entries []Entry, bad []error, err error) {
	paths, err := files(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		e, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has forgotten it meanwhile
		}
		if err == nil && e.path(dir) != path {
			err = fmt.Errorf("%s: %w: its name is another key's", path, ErrDamaged)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.order(), b.order()) })
	return entries, bad, nil
}

func (k Key) order() string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%8d%8d%8d%8d%8d", k.Device, k.Backend, k.Kernel, k.Threads, k.KVBits, k.KeyDim, k.ValueDim, k.Group)
}

// Forget removes all entries, damaged ones too, and says how many.
func Forget(dir string) (n int, err error) {
	paths, err := files(dir)
	for _, path := range paths {
		if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
			continue
		}
		n++
	}
	return n, err
}

// files lists the files of entries; none where there is no folder.
func files(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// read reads a file, which anyone may have written.
func read(path string) (Entry, error) {
	var e Entry
	text, err := readFile(path)
	if err != nil {
		return e, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("%s: %w: %w", path, ErrDamaged, plainjson.Plain(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, fmt.Errorf("%s: %w: text after the entry", path, ErrDamaged)
	}
	if e.Version != version {
		return e, fmt.Errorf("%s: %w: version %d, want %d: flashdec tune measures anew", path, ErrDamaged, e.Version, version)
	}
	if err := e.check(); err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// readFile reads a small plain file. A pipe in its place would block, and a
// device never end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %w: %s of %d bytes, want a file of at most %d", path, ErrDamaged, info.Mode(), info.Size(), maxFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// check bounds the values, those that reach plans and pools above all.
func (e *Entry) check() error {
	for _, f := range [...]struct {
		name           string
		got, low, high int
	}{
		{"min_keys_per_split", e.MinKeysPerSplit, 0, maxMinKeys},
		{"helper_work", e.HelperWork, 0, maxHelperWork},
		{"threads", e.Threads, 1, 1 << 16},
		{"key_dim", e.KeyDim, 1, 1 << 20},
		{"value_dim", e.ValueDim, 1, 1 << 20},
		{"group", e.Group, 1, 1 << 20},
		{"kv_bits", e.KVBits, 1, 64},
	} {
		if f.got < f.low || f.got > f.high {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrDamaged, f.name, f.got, f.low, f.high)
		}
	}
	if n := e.MinKeysPerSplit; n > 0 && n < plan.LeastKeysPerSplit {
		return fmt.Errorf("%w: min_keys_per_split is %d, want %d at least", ErrDamaged, n, plan.LeastKeysPerSplit)
	}
	if !(e.Saved >= 0 && e.Saved < 1) {
		return fmt.Errorf("%w: saved is %v, want 0 to 1", ErrDamaged, e.Saved)
	}
	if !(e.Noise >= 0 && e.Noise <= math.MaxFloat64) {
		return fmt.Errorf("%w: noise is %v, want a number of at least 0", ErrDamaged, e.Noise)
	}
	if _, err := time.Parse(time.DateOnly, e.Tuned); err != nil {
		return fmt.Errorf("%w: tuned is %q, want a day such as 2026-11-30", ErrDamaged, e.Tuned)
	}
	return nil
}
