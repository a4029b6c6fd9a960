// Package runreport makes one HTML file of what runs of khop have printed as JSON: the sentence, curves, options as
// text, and what differs between them. The file needs nothing from elsewhere and runs no script.
package runreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/internal/plot"
)

// ErrRun is returned for a file that is not what a run has printed.
var ErrRun = errors.New("not what a run of khop has printed by --json or --jsonl")

var errNull = errors.New("null")

// Run is what a run has printed.
type Run struct {
	Name    string
	Said    string            // the sentence
	Options string            // as khop reads them; "" for none
	Values  map[string]string // all numbers and texts, by their path
	Plots   plot.Sheet
	Stages  []Stage
}

// Stage is how long a worker takes for a stage, a batch.
type Stage struct {
	Name string
	Ms   float64
}

// Read reads what a run has printed: an object, or one an epoch and the result. say makes a sentence of a report.
func Read(name string, text []byte, say func(json.RawMessage) string) (*Run, error) {
	var all plot.Objects
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]json.RawMessage
		err := d.Decode(&object)
		if err == io.EOF {
			break
		}
		if err != nil || object == nil {
			return nil, fmt.Errorf("%w: object %d: %w", ErrRun, len(all)+1, cmp.Or(err, errNull))
		}
		all = append(all, object)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrRun)
	}
	last := all[len(all)-1]
	r := &Run{Name: name, Values: map[string]string{}}
	for _, key := range []string{"report", "loading"} {
		if r.Said == "" && last[key] != nil {
			r.Said = say(last[key])
		}
	}
	if options := last["options"]; options != nil {
		var b bytes.Buffer
		if json.Indent(&b, options, "", "  ") == nil {
			r.Options = b.String()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if !slices.Contains([]string{"report", "loading", "caches", "degrees", "times"}, key) {
			r.flatten(key, last[key])
		}
	}
	for _, name := range []string{"sample", "gather", "disk"} {
		if ms := 0.0; json.Unmarshal(last[name+"_ms"], &ms) == nil && ms > 0 {
			r.Stages = append(r.Stages, Stage{name, ms})
		}
	}
	r.Plots = plot.Printed(name, all)
	return r, nil
}

// mostListed is how many elements of a list are shown.
const mostListed = 64

// flatten notes what a value holds.
func (r *Run) flatten(path string, text json.RawMessage) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	var word string
	switch {
	case json.Unmarshal(text, &word) == nil:
		if string(text) != "null" {
			r.Values[path] = word
		}
	case json.Unmarshal(text, &object) == nil:
		for key, inner := range object {
			r.flatten(path+"."+key, inner)
		}
	case json.Unmarshal(text, &list) == nil:
		for i, inner := range list[:min(len(list), mostListed)] {
			r.flatten(path+"."+strconv.Itoa(i), inner)
		}
	default:
		r.Values[path] = string(text)
		if f, err := strconv.ParseFloat(string(text), 64); err == nil && f != math.Trunc(f) {
			if r.Values[path] = strconv.FormatFloat(f, 'g', 6, 64); math.Abs(f) >= 1e6 && math.Abs(f) < 1e15 {
				r.Values[path] = strconv.FormatFloat(f, 'f', 0, 64)
			}
		}
	}
}
