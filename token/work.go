package token

import (
	"strings"
	"time"
)

// work is one encoding: its memory.
type work struct {
	t        *Tokenizer
	guard    string
	deadline time.Time
	scratch  scratch
	pieces   []string
	next     []string
}

// plain appends the ids of text between added tokens; first says that it
// begins the whole text.
func (w *work) plain(ids []int, text string, first bool) ([]int, error) {
	if w.guard != "" {
		text = strings.ReplaceAll(text, w.guard, "")
	}
	if text == "" {
		return ids, nil
	}
	var err error
	for _, n := range w.t.normalize {
		if text, err = n.normalize(text, w.deadline); err != nil {
			return nil, err
		}
	}
	if len(text) > maxGrowth*MaxText {
		return nil, errGrowth
	}
	if err := w.cut(text, first); err != nil {
		return nil, err
	}
	for _, piece := range w.pieces {
		if piece == "" {
			continue
		}
		if ids, err = w.t.model.encode(ids, piece, &w.scratch); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// cut passes text through the stages.
func (w *work) cut(text string, first bool) error {
	w.pieces = append(w.pieces[:0], text)
	for _, s := range w.t.stages {
		w.next = w.next[:0]
		for i, piece := range w.pieces {
			var err error
			if w.next, err = s.split(w.next, piece, place{first && i == 0, w.deadline}); err != nil {
				return err
			}
		}
		w.pieces, w.next = w.next, w.pieces
	}
	return nil
}
