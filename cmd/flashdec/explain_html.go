package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/flashdec/flashdec/internal/explain"
	"github.com/flashdec/flashdec/internal/whole"
)

// toStdout is the name of a page that goes to standard output.
const toStdout = "-"

// checkPage refuses before the work what cannot be shown or written.
func (cmd *explainCmd) checkPage(i *interrupt) error {
	switch {
	case cmd.HTML == "":
		return nil
	case cmd.Splits > maxPageSplits:
		return fmt.Errorf("--splits is %d, want at most %d with --html: the page's slider ends there", cmd.Splits, maxPageSplits)
	case cmd.HTML != toStdout:
		return i.unbroken(func() error { return checkPlace(cmd.HTML, cmd.File) })
	case cmd.JSON:
		return fmt.Errorf("--html=- and --json both write to standard output, want one of them")
	}
	return nil
}

// writePage writes a page where it is asked for, whole or not at all.
func (cmd *explainCmd) writePage(i *interrupt, t *terminal, p *explain.Page) error {
	if cmd.HTML == toStdout {
		err := p.Write(t.out)
		if flushErr := t.flush(); flushErr != nil {
			return flushErr // the writer's first
		}
		return err
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	size := text.Len()
	if err := i.unbroken(func() error {
		return whole.Write(cmd.HTML, func(w io.Writer) error { _, err := text.WriteTo(w); return err })
	}); err != nil {
		return err
	}
	if !cmd.JSON {
		t.printf("wrote %s (%s): open it in a browser\n", printable(cmd.HTML), byteCount(size))
	}
	return nil
}

// filePage is the page of one row of a file.
func filePage(c *decodeCase, x *explained, r *fileRow) *explain.Page {
	name := c.name
	if name == "" {
		name = filepath.Base(c.path)
	}
	p := &explain.Page{
		Title: name,
		Which: fmt.Sprintf("Sequence %d, query head %d (of KV head %d), %s, at position %d", x.Seq, x.Head, x.KVHead, x.queryName(c), x.Position),
		Facts: []explain.Fact{
			{Name: "File", Value: filepath.Base(c.path)},
			{Name: "Keys", Value: fmt.Sprint(x.Keys)},
			{Name: "Query and KV heads", Value: fmt.Sprintf("%d and %d", c.shape.NumHeads, c.shape.NumKVHeads)},
			{Name: "Key and value dim", Value: fmt.Sprintf("%d and %d", c.shape.KeyDim, c.shape.ValueDim)},
			{Name: "Keys and values stored as", Value: fmt.Sprintf("%v and %v", c.k.DType, c.v.DType)},
		},
		Command: fmt.Sprintf("flashdec explain %s --seq %d --head %d --query %d --splits %d --html FILE", shellWord(filepath.Base(c.path)), x.Seq, x.Head, x.Query, max(len(x.States), 1)),
		Rule:    x.scoreRule(c),
	}
	if text := c.file.Metadata["text"]; text != "" {
		p.Facts = append(p.Facts, explain.Fact{Name: "Text", Value: text})
	}
	b := pageBuilder{p: p, x: x, r: r, pieces: c.pieces}
	b.build()
	return p
}
