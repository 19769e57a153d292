// Package plainjson reads JSON with errors in a file's terms: the key, what it has and
// what is wanted, where package encoding/json names Go's types.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Unmarshal is [json.Unmarshal], with errors of [Plain]. In a map, the key is named. A
// type that reads itself does so with package json, which then knows the type's key.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	if err := inMap(data, reflect.TypeOf(v)); err != nil {
		return err
	}
	return Plain(err)
}

// Plain is an error of package json in a file's terms. Others it leaves as they are.
func Plain(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Offset > 0:
		return fmt.Errorf("no JSON: %s, at byte %d", syntax.Error(), syntax.Offset)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // a decoder's word
		return errors.New("no JSON: it ends early")
	case !errors.As(err, &wrong):
		return plainText{err}
	case wrong.Field == "":
		return fmt.Errorf("%s, want %s", came(wrong), wanted(wrong.Type))
	}
	return fmt.Errorf("%s has %s, want %s", wrong.Field, came(wrong), wanted(wrong.Type))
}

// plainText is an error without the package's name before it.
type plainText struct{ error }

func (e plainText) Error() string { return strings.TrimPrefix(e.error.Error(), "json: ") }
func (e plainText) Unwrap() error { return e.error }

// came is what stands in the file.
func came(wrong *json.UnmarshalTypeError) string {
	switch kind, number, _ := strings.Cut(wrong.Value, " "); kind {
	case "number":
		if number == "" {
			return "a number"
		}
		return fmt.Sprintf("the number %.40s", number)
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	default:
		return "a " + kind
	}
}

// wanted is what a type of Go's is in JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("a number of %d bits", t.Bits())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}

// inMap is the error of the first key, in their order, whose value is none of a map's;
// nil where it is no map that is wrong so.
func inMap(data []byte, v reflect.Type) error {
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Map || v.Elem().Key().Kind() != reflect.String {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(data, &values) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := json.Unmarshal(values[key], reflect.New(v.Elem().Elem()).Interface()); err != nil {
			return fmt.Errorf("%.80q: %w", key, Plain(err))
		}
	}
	return nil
}

// Given reports whether a value is there, and is not null.
func Given(value json.RawMessage) bool { return len(value) > 0 && !bytes.Equal(value, []byte("null")) }
