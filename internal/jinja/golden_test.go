package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// golden is testdata/cases.json, which testdata/make.py makes with Jinja.
type golden struct {
	Variables json.RawMessage
	Cases     []struct {
		Name, Template string
		Text           *string // nil where the template fails
	}
}

func TestTextsAreThoseOfJinja(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) < 90 {
		t.Fatalf("%d cases", len(g.Cases))
	}
	variables := map[string]any{}
	for _, f := range ordered(t, g.Variables).([]Field) {
		variables[f.Key] = f.Value
	}
	functions := map[string]func(string) (string, error){
		"strftime_now": func(layout string) (string, error) { return "<" + layout + ">", nil },
	}
	for _, c := range g.Cases {
		got, err := render(c.Template, variables, functions)
		switch {
		case c.Text == nil && !errors.Is(err, ErrTemplate):
			t.Errorf("%s\n got %q, error %v, want ErrTemplate", c.Name, got, err)
		case c.Text != nil && (err != nil || got != *c.Text):
			t.Errorf("%s\n got %q, error %v\nwant %q", c.Name, got, err, *c.Text)
		}
	}
}

func render(source string, variables map[string]any, functions map[string]func(string) (string, error)) (string, error) {
	parsed, err := Parse(source)
	if err != nil {
		return "", err
	}
	return parsed.Execute(variables, functions, 1<<20)
}

// ordered reads JSON with its keys in order and integers as such.
func ordered(t *testing.T, data json.RawMessage) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := orderedValue(dec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func orderedValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		if i, err := token.Int64(); err == nil {
			return i, nil
		}
		return token.Float64()
	case json.Delim:
		if token == '{' {
			return orderedFields(dec)
		}
		list := []any{}
		for dec.More() {
			v, err := orderedValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return token, nil
}

func orderedFields(dec *json.Decoder) (any, error) {
	fields := []Field{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := orderedValue(dec)
		if err != nil {
			return nil, err
		}
		fields = append(fields, Field{key.(string), v})
	}
	_, err := dec.Token()
	return fields, err
}
