package plot

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// printed is what a command may print, line by line.
func printed(t *testing.T, text string) (all Objects) {
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var object map[string]json.RawMessage
		if err := d.Decode(&object); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

func TestWhatIsPrintedHasItsPictures(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`:             nil,
		`{"degrees":[]}`: nil,
		`{"epoch":1,"loss":3,"val_accuracy":0.25} {"epoch":2,"loss":2} {"model":"sage"}`: {"learning"},
		`{"epoch":1,"loss":3}`: {"learning"},
		`{"epoch":1,"batches_per_second":7} {"epoch":2,"batches_per_second":8}`: {"throughput"},
		`{"degrees":[{"from":0,"nodes":3},{"from":1,"nodes":0},{"from":2,"nodes":900}],
		  "node_types":[{"name":"user","count":3}],"edge_types":[{"source":"user","relation":"likes","target":"user",
		  "count":7}],"splits":[{"name":"train","index":0,"count":2},{"name":"test","index":1,"count":1}],
		  "times":[{"owner":"user","column":"time","unit":"s","first":0,"last":172800,"rows":[1,2]}]}`: {
			"in-edges of nodes", "types", "splits", "time of user"},
		`{"caches":[{"cache_bytes":1e9,"policies":[{"policy":"lru","seconds":3}]},
		  {"cache_bytes":2e9,"policies":[]}]}`: {"columns on disk: time"},
		`{"rows":9,"caches":[{"cache_bytes":1e9,"policies":[{"policy":"optimum","seconds":3}]},
		  {"cache_bytes":2e9,"policies":[]}]}`: {"columns on disk: time", "columns on disk: rows missed"},
		`{"tuned":[{"width":16,"default_ns":2,"best_ns":1}]}`: {
			"speed-up over the untuned kernel, by width"},
		`{"tuned":7,"caches":{},"degrees":"x","times":[[]],"splits":null}`: nil,
	} {
		list := Printed("it", printed(t, text))
		expect.Ensure(t, len(list) == len(want), "%s: %d pictures", text, len(list))
		for i, p := range list {
			expect.Same(t, p.Title, "it: "+want[i])
			expect.OK(t, Sheet{p}.SVG(io.Discard))
		}
	}
}

// The pictures have the numbers that were printed.
func TestBarsAreWhatWasCounted(t *testing.T) {
	list := Printed("it", printed(t, `{"degrees":[{"from":0,"nodes":1},{"from":1,"nodes":0},{"from":2,"nodes":1000}],
		"times":[{"owner":"user","column":"time","unit":"s","first":0,"last":172800,"rows":[1,2]}]}`))
	degrees, times := list[0], list[1]
	expect.Same(t, degrees.Curves[0], Curve{Name: "nodes", X: []float64{0, 2}, Y: []float64{1, 1000}})
	expect.Same(t, times.Curves[0], Curve{Name: "rows", X: []float64{0, 1}, Y: []float64{1, 2}})
	expect.Same(t, times.Ticks, []Tick{{0, "1970-01-01"}, {1, "1970-01-02"}})
}

// The optimum by row is drawn with the rows missed, and takes no seconds.
func TestTheOptimumIsOfRows(t *testing.T) {
	policies := `"policies":[{"policy":"optimum","seconds":3,"misses":2},
		{"policy":"look-ahead","seconds":1,"misses":1}]}`
	list := Printed("", printed(t, `{"rows":4,"column_bytes":4,"caches":[{"cache_bytes":1,`+policies+
		`,{"cache_bytes":2,`+policies+`]}`))
	expect.Same(t, list[0].Curves, []Curve{{Name: "look-ahead", X: []float64{0, 1}, Y: []float64{1, 1}}})
	expect.Same(t, list[1].Curves, []Curve{{Name: "optimum by row", X: []float64{0, 1}, Y: []float64{50, 50}},
		{Name: "look-ahead", X: []float64{0, 1}, Y: []float64{25, 25}}})
	expect.Same(t, list[1].Ticks, []Tick{{0, "25"}, {1, "50"}})
}
