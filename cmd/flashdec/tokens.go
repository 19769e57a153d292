package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// decimal is a field of a file of numbers: one in decimal, whole or not.
var decimal = regexp.MustCompile(`^[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$`)

// onlyNumbers reports whether a text is nothing but decimal numbers and what stands between ids: a list of ids, or one that
// was meant to be and has a number that is none.
func onlyNumbers(text string) bool {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '[' || r == ']' || unicode.IsSpace(r) })
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(field string) bool { return !decimal.MatchString(field) })
}

// What a file's tokens were read from.
const (
	fromText = "text"
	fromIDs  = "token ids"
)

// readTokens reads a file of token ids, as numbers or as a safetensors file's input_ids, or of text,
// which the model's tokenizer turns into ids with the special tokens that it puts around a text. It says which.
func (l *loaded) readTokens(path string) (ids []int, from string, err error) {
	if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		ids, err = l.readInputIDs(path)
		return ids, fromIDs, err
	}
	text, err := readText(path)
	if err != nil {
		return nil, "", err
	}
	switch {
	case text == "": // some tokenizers make a token of it
	case onlyNumbers(text):
		from = fromIDs
		if ids, err = parseIDs(text); err != nil {
			err = fmt.Errorf("%w: a file of numbers alone is read as token ids", err)
		}
	default:
		from = fromText
		ids, err = l.encode(text, "the file is text")
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", quotePath(path), err)
	}
	ids, err = l.usable(path, ids)
	return ids, from, err
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
