package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flashdec/flashdec/tensorfile"
)

// rules are the names that metadata gives a meaning to, inputs those that tensors
// do: each has its place, and would say nothing in the other.
var (
	rules  = []string{"scale", "causal", "window", "softcap"}
	inputs = []string{"q", "k", "v", "lens", "sinks", "alibi_slopes", "mask", "out", "lse"}
	// shown is the metadata that reports show.
	shown = []string{"name", "text", "pieces"}
	// notes say where a case is from: metadata, and the ids of its tokens, a tensor.
	notes = []string{"source", "model", "arch", "layer", "format", "tokens"}
)

// unknownKeys are the metadata keys that nobody reads: a misspelt rule is among them.
func (c *decodeCase) unknownKeys() []string {
	var unknown []string
	for key := range c.file.Metadata {
		if !slices.Contains(rules, key) && !slices.Contains(inputs, key) && !slices.Contains(shown, key) && !slices.Contains(notes, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// unknownTensors are the tensors that nobody reads: a misspelt input is among them. Those that are metadata, too, as an
// .npz has it, count there.
func unknownTensors(f *tensorfile.File) []string {
	var unknown []string
	for _, t := range f.Tensors {
		if _, both := f.Metadata[t.Name]; !both && !slices.Contains(inputs, t.Name) && !slices.Contains(shown, t.Name) && !slices.Contains(notes, t.Name) {
			unknown = append(unknown, t.Name)
		}
	}
	return unknown
}

// warn tells of what nobody reads. It is no error: files may hold what they like.
func (c *decodeCase) warn(t *terminal) {
	for _, unread := range []struct {
		kind        string
		names, read []string
		are         string
	}{
		{"tensor", unknownTensors(c.file), inputs, "tensors"},
		{"metadata", c.unknownKeys(), append(slices.Clone(rules), shown...), "rules, and what is shown,"},
	} {
		if len(unread.names) > 0 {
			fmt.Fprintf(t.errs, "flashdec: %s: %s %s: not read; %s are %s\n",
				quotePath(c.path), unread.kind, fewNames(unread.names), unread.are, strings.Join(unread.read, ", "))
		}
	}
}

// fewNames lists a file's names, as many and as much of each as a line has room for.
func fewNames(names []string) string {
	const most, longest = 5, 40
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = clip(name, longest)
	}
	return strings.Join(short, ", ") + more
}

// rulesLine is the rules in words, in the order in which they apply.
func (c *decodeCase) rulesLine() string {
	o := &c.options
	words := []string{fmt.Sprintf("scale %.6g", o.ScaleFor(c.shape.KeyDim))}
	if o.Scale == 0 {
		words[0] += fmt.Sprintf(" (1/√%d)", c.shape.KeyDim)
	}
	if o.Softcap > 0 {
		words = append(words, fmt.Sprintf("softcap %g", o.Softcap))
	}
	if o.Causal {
		words = append(words, "causal")
	}
	if o.Window > 0 {
		words = append(words, fmt.Sprintf("window %d", o.Window))
	}
	for _, rule := range []struct {
		name string
		is   bool
	}{{"mask", o.Mask != nil}, {"ALiBi", o.Slopes != nil}, {"sinks", o.Sinks != nil}} {
		if rule.is {
			words = append(words, rule.name)
		}
	}
	return strings.Join(words, ", ")
}

// checkPlaces refuses rules among the tensors and inputs in the metadata: who put
// them there meant other attention than the file would get. An .npz has its
// metadata as arrays of one element.
func (r *caseReader) checkPlaces() error {
	for _, name := range rules {
		t, found := r.file.Tensor(name)
		if !found {
			continue
		}
		if text, one := t.Text(); !one || text != r.file.Metadata[name] {
			return r.bad(name, "has shape %v, want none: %s belongs in the metadata, or in an .npz as one element", t.Shape, name)
		}
	}
	for _, name := range inputs {
		if text, found := r.file.Metadata[name]; found {
			if _, both := r.file.Tensor(name); !both {
				return r.badRule(name, text, "none: "+name+" belongs in a tensor")
			}
		}
	}
	return nil
}

// readRules reads the metadata. Unknown keys are the file's own affair, see warn.
func (r *caseReader) readRules() (err error) {
	o := &r.c.options
	if o.Scale, err = r.number("scale", "a finite number other than 0", func(x float64) bool { return x != 0 }); err != nil {
		return err
	}
	if o.Softcap, err = r.number("softcap", "a finite number above 0", func(x float64) bool { return x > 0 }); err != nil {
		return err
	}
	if text, found := r.file.Metadata["causal"]; found {
		if o.Causal, err = strconv.ParseBool(text); err != nil {
			return r.badRule("causal", text, "true or false")
		}
	}
	if text, found := r.file.Metadata["window"]; found {
		if o.Window, err = strconv.Atoi(text); err != nil || o.Window < 1 {
			return r.badRule("window", text, "a count of keys, at least 1")
		}
	}
	if slopes := o.Slopes; slopes != nil {
		for h, slope := range slopes {
			if x := float64(slope); math.IsNaN(x) || math.IsInf(x, 0) {
				return r.bad("alibi_slopes", "element %d is %v, want a finite number", h, slope)
			}
		}
	}
	if err := o.Validate(r.c.shape); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return nil
}

// number is a metadata number that passes a test, or 0 where the file has none.
func (r *caseReader) number(name, want string, ok func(float64) bool) (float64, error) {
	text, found := r.file.Metadata[name]
	if !found {
		return 0, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || !ok(x) {
		return 0, r.badRule(name, text, want)
	}
	return x, nil
}

func (r *caseReader) badRule(name, text, want string) error {
	const most = 40
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Errorf("%s: metadata %s: is %q, want %s", r.path, name, text, want)
}

// readText reads the tokens' text. A file whose text does not fit its keys is
// shown by positions: text is for the eye and decides nothing.
func (r *caseReader) readText() error {
	c := r.c
	c.name = r.file.Metadata["name"]
	var pieces []string
	if err := json.Unmarshal([]byte(r.file.Metadata["pieces"]), &pieces); err == nil && len(pieces) == c.keys {
		c.pieces = pieces
	}
	return nil
}
