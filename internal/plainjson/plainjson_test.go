package plainjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/plainjson"
)

type inner struct {
	Names []string `json:"names"`
}

type outer struct {
	Size   int               `json:"size"`
	Small  *int32            `json:"small"`
	Ratio  float64           `json:"ratio"`
	On     bool              `json:"on"`
	Name   string            `json:"name"`
	In     inner             `json:"in"`
	Many   []inner           `json:"many"`
	Places map[string]string `json:"places"`
	Two    pair              `json:"two"`
}

// pair reads itself.
type pair [2]int

func (p *pair) UnmarshalJSON(data []byte) error {
	var list []int
	err := json.Unmarshal(data, &list)
	copy(p[:], list)
	return err
}

// Errors say the key, what it has and what is wanted, and name no type of Go's.
func TestErrorsAreInTheFilesTerms(t *testing.T) {
	for text, want := range map[string]string{
		`{"size": "12"}`:               "size has a string, want a whole number of 64 bits",
		`{"size": 1.5}`:                "size has the number 1.5, want a whole number of 64 bits",
		`{"size": 1e99}`:               "size has the number 1e99, want a whole number of 64 bits",
		`{"small": 3000000000}`:        "small has the number 3000000000, want a whole number of 32 bits",
		`{"size": []}`:                 "size has a list, want a whole number of 64 bits",
		`{"size": {}}`:                 "size has an object, want a whole number of 64 bits",
		`{"ratio": true}`:              "ratio has true or false, want a number of 64 bits",
		`{"ratio": 1e999}`:             "ratio has the number 1e999, want a number of 64 bits",
		`{"on": "yes"}`:                "on has a string, want true or false",
		`{"name": 3}`:                  "name has a number, want a string",
		`{"in": 3}`:                    "in has a number, want an object",
		`{"in": {"names": {}}}`:        "in.names has an object, want a list",
		`{"many": [{}, {"names": 1}]}`: "many.names has a number, want a list",
		`{"places": {"a": 1}}`:         "places has a number, want a string",
		`{"two": [1, "2"]}`:            "two has a string, want a whole number of 64 bits",
		`[]`:                           "a list, want an object",
		`{"size": 1`:                   "no JSON: unexpected end of JSON input, at byte 10",
		`{"size" 1}`:                   "no JSON: invalid character '1' after object key, at byte 9",
	} {
		var into outer
		if err := plainjson.Unmarshal([]byte(text), &into); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
	strict := json.NewDecoder(strings.NewReader(`{"sise": 1}{"size"`))
	strict.DisallowUnknownFields()
	for _, want := range []string{`unknown field "sise"`, "no JSON: it ends early"} {
		var into outer
		if err := plainjson.Plain(strict.Decode(&into)); err == nil || err.Error() != want {
			t.Errorf("of a decoder: %v, want %s", err, want)
		}
	}
	var ids map[string]int64
	if err := plainjson.Unmarshal([]byte(`{"a": 1, "c": "x", "b": 2.5}`), &ids); err == nil || err.Error() != `"b": the number 2.5, want a whole number of 64 bits` {
		t.Errorf("of a map: %v, want its first key that has no whole number", err)
	}
	var into outer
	if err := plainjson.Unmarshal([]byte(`{"size": 3, "two": [1, 2]}`), &into); err != nil || into.Size != 3 || into.Two != (pair{1, 2}) {
		t.Errorf("%v, %+v", err, into)
	}
}
