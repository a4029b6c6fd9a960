package json

import (
	"errors"
	"strings"
	"testing"
)

// TestWhatDependenciesReadAndWrite holds what Arrow and minio-go rely on: large integers stay exact by Number, and a
// value of another type is an UnmarshalTypeError that names its field.
func TestWhatDependenciesReadAndWrite(t *testing.T) {
	d := NewDecoder(strings.NewReader(`{"id": 9007199254740993, "raw": {"a": [1]}}`))
	d.UseNumber()
	var got map[string]any
	if err := d.Decode(&got); err != nil || got["id"] != Number("9007199254740993") {
		t.Fatalf("%v, %v", got, err)
	}
	text, err := Marshal(got)
	if err != nil || string(text) != `{"id":9007199254740993,"raw":{"a":[1]}}` {
		t.Fatalf("%s, %v", text, err)
	}
	var out strings.Builder
	if err := NewEncoder(&out).Encode(RawMessage(text)); err != nil || out.String() != string(text)+"\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	var wrong *UnmarshalTypeError
	var into struct{ ID string }
	if err := Unmarshal(text, &into); !errors.As(err, &wrong) || wrong.Field == "" {
		t.Fatalf("%v", err)
	}
}
