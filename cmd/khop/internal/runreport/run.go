// Package runreport makes one HTML file of what runs of khop have printed as JSON: a sentence, what changed between
// them, figures in units and groups, and curves. The file needs nothing from elsewhere and runs no script.
package runreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/cmd/khop/internal/plot"
)

// ErrRun is returned for a file that is not what a run has printed.
var ErrRun = errors.New("not what a run of khop has printed by --json or --jsonl")

var errNull = errors.New("null")

// Run is what a run has printed.
type Run struct {
	Name    string
	Said    string           // the sentence of its report
	Options string           // as khop reads them; "" for none
	Values  map[string]value // all numbers and texts, by their path
	Plots   plot.Sheet
}

// value is a number or a text, or a list of some.
type value struct {
	raw    string // as it is printed
	number float64
	is     bool      // a number
	list   []float64 // of numbers
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
	r := &Run{Name: name, Values: map[string]value{}}
	for _, key := range []string{"report", "loading"} {
		if last[key] != nil {
			r.Said = cmp.Or(r.Said, say(last[key]))
		}
	}
	if options := last["options"]; options != nil {
		var b bytes.Buffer
		if json.Indent(&b, options, "", "  ") == nil {
			r.Options = b.String()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if !slices.Contains([]string{"caches", "degrees", "times"}, key) { // which are drawn
			r.flatten(key, last[key])
		}
	}
	r.Plots = plot.Printed("", all)
	if p := r.stages(); p != nil {
		r.Plots = append(r.Plots, p)
	}
	return r, nil
}

// mostListed is how many elements of a list are shown.
const mostListed = 64

// flatten notes what a value holds.
func (r *Run) flatten(path string, text json.RawMessage) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	var v value
	switch {
	case json.Unmarshal(text, &v.raw) == nil:
		if v.raw != "" { // nor null
			r.Values[path] = v
		}
	case json.Unmarshal(text, &object) == nil:
		for key, inner := range object {
			r.flatten(path+"."+key, inner)
		}
	case json.Unmarshal(text, &list) == nil:
		if len(list) > 0 && !strings.ContainsAny(string(list[0][:1]), "[{") {
			v.raw = joined(list[:min(len(list), mostListed)])
			if json.Unmarshal(text, &v.list) != nil {
				v.list = nil
			}
			r.Values[path] = v
			return
		}
		for i, inner := range list[:min(len(list), mostListed)] {
			r.flatten(fmt.Sprintf("%s.%d", path, i), inner)
		}
	default:
		v.raw = string(text)
		v.is = json.Unmarshal(text, &v.number) == nil
		r.Values[path] = v
	}
}

// joined writes numbers or texts one after the other.
func joined(list []json.RawMessage) string {
	var words []string
	for _, text := range list {
		var word string
		if json.Unmarshal(text, &word) != nil {
			word = string(text)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// number returns a figure; 0 where there is none.
func (r *Run) number(path string) float64 { return r.Values[path].number }

// stages draws how long a worker takes for a batch.
func (r *Run) stages() *plot.Plot {
	p := &plot.Plot{Title: "time of one worker, a batch", Right: "ms", Bars: true, Curves: []plot.Curve{{}}}
	names, most, scale := []string{"sample", "gather", "disk"}, 0.0, 1.0
	for _, name := range names {
		most = max(most, r.number(name+"_ms"))
	}
	switch {
	case most == 0:
		return nil
	case most < 1:
		p.Right, scale = "µs", 1e3
	}
	for _, name := range names {
		if ms := r.number(name + "_ms"); ms > 0 {
			at := float64(len(p.Ticks))
			p.Ticks = append(p.Ticks, plot.Tick{At: at, Label: name})
			p.Curves[0].Add(at, ms*scale)
		}
	}
	return p
}
