// Package json stands in for github.com/goccy/go-json in the programs of a release: what dependencies ask of that, by
// Go's own library. They write and read JSON with it that khop hardly ever asks for, and it is 1.3 MB.
package json

import (
	"encoding/json"
	"io"
)

// What Arrow and minio-go name.
type (
	Decoder            = json.Decoder
	Delim              = json.Delim
	Encoder            = json.Encoder
	Marshaler          = json.Marshaler
	Number             = json.Number
	RawMessage         = json.RawMessage
	UnmarshalTypeError = json.UnmarshalTypeError
	Unmarshaler        = json.Unmarshaler
)

// Marshal is encoding/json's.
func Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is encoding/json's.
func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// NewDecoder is encoding/json's.
func NewDecoder(r io.Reader) *Decoder { return json.NewDecoder(r) }

// NewEncoder is encoding/json's.
func NewEncoder(w io.Writer) *Encoder { return json.NewEncoder(w) }
