//go:build cuda

package sampling

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// onDevice samples as a loader does on a device; ok is false for samplers that do not run there.
func (c *badInput) onDevice(t *testing.T, d *deviceUnderTest) (out *graph.Sample, ok bool, err error) {
	s, ok := runsOnDevices(c.sampler)
	if !ok {
		return nil, false, nil
	}
	if err := validate(s, c.graph.Schema()); err != nil {
		return nil, true, err
	}
	if _, err := edgeColumnsOf(s, c.graph); err != nil {
		return nil, true, err
	}
	prepared, err := Prepare(t.Context(), s, Env{Graph: c.graph, BatchSize: 8})
	if err != nil {
		return nil, true, err
	}
	closeAll(t, prepared)
	out = sampleOf(c.graph, s, 8)
	t.Cleanup(func() { _ = out.Close() })
	w := d.openSome(s, c.graph, 2, []string{"as opened"})["as opened"]
	return out, true, w.Sample(context.Background(), c.req, out)
}

// dump writes all of a sample.
func dump(t testing.TB, out *graph.Sample) string {
	var text strings.Builder
	fmt.Fprintln(&text, out.NumNodes)
	for i := range out.Nodes {
		fmt.Fprintln(&text, widen(t, out.Nodes[i]), widen(t, out.SeedLocal[i]))
	}
	for _, layer := range out.Blocks {
		for e := range layer {
			fmt.Fprintln(&text, layer[e].NumSrc, layer[e].NumDst, widen(t, layer[e].Indptr), widen(t, layer[e].Indices))
		}
	}
	for i := range out.Arrays {
		if rows := out.Arrays[i].Rows; rows.DType() == unified.Float32 {
			fmt.Fprintln(&text, out.Arrays[i].Name, rows.Shape(), rows.Bytes())
		} else {
			fmt.Fprintln(&text, out.Arrays[i].Name, widen(t, rows))
		}
	}
	return text.String()
}

// A device says of bad input what the CPU says, to the word, and where it has a result that is the same.
func TestBadInputOnADeviceIsAsOnTheCPU(t *testing.T) {
	d, results, refusals := openDevice(t), 0, 0
	for _, c := range badInputs(t) {
		got, ok, err := c.onDevice(t, d)
		if !ok {
			continue
		}
		want, hostErr := c.onHost(t)
		if fmt.Sprint(err) != fmt.Sprint(hostErr) {
			t.Errorf("%s: %v; the CPU says %v", c.name, err, hostErr)
			continue
		}
		if err != nil {
			refusals++
			continue
		}
		results++
		if got, want := dump(t, got), dump(t, want); got != want {
			t.Errorf("%s: %s; the CPU has %s", c.name, got, want)
		}
	}
	expect.That(t, results >= 25 && refusals >= 60, "%d results and %d refusals were compared", results, refusals)
}
