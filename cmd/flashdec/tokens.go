package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/flashdec/flashdec/tensorfile"
	"github.com/flashdec/flashdec/token"
)

// maxTokensFile bounds what is read as text or ids.
const maxTokensFile = token.MaxText

// parseIDs reads token ids: numbers between commas or white space, in brackets or not.
func parseIDs(list string) ([]int, error) {
	list = strings.TrimSpace(list)
	if inner, ok := strings.CutPrefix(list, "["); ok {
		if list, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, fmt.Errorf("a list of token ids begins with [ but does not end with ]")
		}
	}
	var fields []string
	for part := range strings.SplitSeq(list, ",") {
		if between := strings.Fields(part); len(between) > 0 {
			fields = append(fields, between...)
		} else if strings.TrimSpace(list) != "" {
			return nil, fmt.Errorf("token id %d is missing beside a comma, want numbers, as in 5,17,3", len(fields))
		}
	}
	ids := make([]int, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("token id %d is %.40q, want a number from 0 on, as in 5,17,3", i, field)
		}
		ids[i] = int(n)
	}
	return ids, nil
}

// onlyIDs reports whether a file's text is a list of ids: nothing but digits and what stands between them.
func onlyIDs(text string) bool {
	digits := strings.ContainsFunc(text, unicode.IsDigit)
	return digits && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r == ',' || r == '[' || r == ']' || unicode.IsSpace(r))
	})
}

// readTokens reads a file of token ids, as numbers or as a safetensors file's input_ids, or of text,
// which the model's tokenizer turns into ids with the special tokens that it puts around a text.
func (l *loaded) readTokens(path string) ([]int, error) {
	if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		return l.readInputIDs(path)
	}
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	var ids []int
	if text == "" { // some tokenizers make a token of it
		return l.usable(path, nil)
	}
	if onlyIDs(text) {
		ids, err = parseIDs(text)
	} else {
		ids, err = l.encode(text, "the file is text")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quotePath(path), err)
	}
	return l.usable(path, ids)
}

func (l *loaded) readInputIDs(path string) ([]int, error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written
	x, ok := f.Tensor("input_ids")
	if !ok || len(x.Shape) != 1 {
		return nil, fmt.Errorf("%s: no tensor input_ids of one dimension", quotePath(path))
	}
	ids, err := x.Ints()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quotePath(path), err)
	}
	return l.usable(path, ids)
}

func (l *loaded) usable(path string, ids []int) ([]int, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: it holds no token", quotePath(path))
	}
	if err := l.checkIDs(ids); err != nil {
		return nil, fmt.Errorf("%s: %w", quotePath(path), err)
	}
	return ids, nil
}

// encode turns text into ids; why says what for, where there is no tokenizer.
func (l *loaded) encode(text, why string) ([]int, error) {
	if err := l.needText(why); err != nil {
		return nil, err
	}
	ids, err := l.tokenizer.Encode(text)
	if err != nil {
		return nil, err
	}
	return l.tokenizer.AddSpecial(ids), nil
}

// readText reads a file, or standard input for "-".
func readText(path string) (string, error) {
	f, name := os.Stdin, "standard input"
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return "", err
		}
		defer f.Close() // nothing was written
		name = quotePath(path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokensFile+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxTokensFile {
		return "", fmt.Errorf("%s: more than %d bytes of text", name, maxTokensFile)
	}
	return string(data), nil
}
