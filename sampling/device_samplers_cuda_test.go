//go:build cuda

package sampling

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// onlyOnTheCPU are the samplers of these tables that run on no device.
var onlyOnTheCPU = []string{"full", "ppr", "ppr, coarse", "sequence of ppr", "sequence, ppr"}

// refusedByAll is what neither graph takes.
const refusedByAll = "per type, twice"

// A sampler makes on a device what it makes on the CPU, of the cases that the CPU is held to; and once it has made
// batches, it allocates nothing for them.
func TestSamplersMakeOnADeviceWhatTheyMakeOnTheCPU(t *testing.T) {
	all := knownSamplers()
	both := []*graph.Graph{steadyGraph(t), typedGraph(t)}
	refused := []string(nil)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		s, ok := runsOnDevices(all[name])
		if !ok {
			refused = append(refused, name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			reverse := expect.DayOrNight("order=reverse", "order=reverse,checks=all") // counting takes long
			order := []string{"order=forward", reverse, "order=random"}[i%3]
			cudatest.Configure(t, fmt.Sprintf("%s,seed=%d", order, i))
			d, compared := openDevice(t), 0
			for n := range both {
				of := (i + n) % len(both)
				g := both[of]
				if validate(s, g.Schema()) == nil && (compared == 0 || *heavy || expect.Night()) {
					compared += d.compareKnown(fmt.Sprintf("%s, graph %d", name, of), g, s, i+of)
				}
			}
			expect.That(t, compared > 0 || name == refusedByAll, "nothing was compared")
		})
	}
	expect.That(t, slices.Equal(refused, onlyOnTheCPU), "on the CPU alone run %q, want %q", refused, onlyOnTheCPU)
}

// A source whose weight is nothing beside the greatest is drawn as rarely as on the CPU: the integers that sources are
// drawn by are the same to the last bit, of any weights.
func TestDeviceDrawsByTheLeastWeights(t *testing.T) {
	weights := []float64{1}
	for exponent := range 60 { // squares of up to 2^-141 of the greatest
		for i := range 18 { // more weights in all than integers of 52 bits have room for
			weights = append(weights, math.Ldexp(1+float64(i)/18, -10-exponent))
		}
	}
	d := openDevice(t)
	for i, scale := range []float64{1, 0x1p-496, 0x1p452} { // squares below those that count, and above
		g, sums := twiceStar(t, weights[:len(weights)/(i+1)], scale)
		s := Ladies{Nodes: []int{len(sums)}, Weight: "w"}
		d.compareKnown("least weights", g, s, 0)
		o := d.openSome(s, g, 2, []string{"as opened"})["as opened"]
		expect.OK(t, o.enqueue(t.Context(), &Request{Seeds: [][]int64{{0}}}))
		got := d.sumsOfLayer(o, len(sums))
		expect.Ensure(t, slices.Equal(got, sums), "scale %v: %d, the CPU has %d", scale, got, sums)
	}
}

// twiceStar is a node with an edge from another, and two from each of more, behind each other, of weights in turn; and
// the sums by which Ladies draws their sources, by edge.
func twiceStar(t *testing.T, weights []float64, scale float64) (*graph.Graph, []uint64) {
	var e graph.EdgeData
	var scaled []float64
	of := make([]float64, len(weights)+1)
	for i := range 2*len(weights) + 1 {
		source := (i + 1) / 2
		e.Src, e.Dst = append(e.Src, int64(1+source)), append(e.Dst, 0)
		scaled = append(scaled, scale*weights[i%len(weights)])
		of[source] += importance(scaled[i])
	}
	e.Columns = map[string]unified.Tensor{"w": unified.FromSlice(scaled)}
	sum, sums, most := uint64(0), []uint64(nil), slices.Max(of)
	for i := range scaled {
		if i == 0 || i%2 == 1 {
			sum += wholeWeight(of[(i+1)/2], wholeShift(int64(len(of)), most))
		}
		sums = append(sums, sum)
	}
	nodes := []graph.NodeData{{Count: int64(1 + len(of))}}
	return graphs.New(t, graph.Data{Nodes: nodes, Edges: []graph.EdgeData{e}}), sums
}

// sumsOfLayer returns the sums by which the nodes of a worker's last hop were drawn.
func (d *deviceUnderTest) sumsOfLayer(o *onDevice, n int) []uint64 {
	w, sums := o.assembly(), unified.FromSlice(make([]int64, n))
	at := w.sortAt + sortCells(w.picker.(*deviceLayer).from.room, 6)
	expect.OK(d.t, d.stream.CopyToHost(sums.Bytes(), w.cells.Address()+device.Address(8*at)))
	expect.OK(d.t, d.stream.Synchronize())
	return part[uint64](sums.Bytes(), 0, n)
}

// Of many edges a warp adds up what their source sends, of few a lane.
func TestDeviceAddsUpManyEdgesOfASource(t *testing.T) {
	var e graph.EdgeData
	var weights []float64
	for v := range int64(40) {
		for u := range int64(6) {
			for range []int{1, 100, 33, 32, 31, 65}[(u+v)%6] {
				e.Src, e.Dst = append(e.Src, 40+u), append(e.Dst, v)
				weights = append(weights, 1/float64(len(weights)+1))
			}
		}
	}
	e.Columns = map[string]unified.Tensor{"w": unified.FromSlice(weights)}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 46}}, Edges: []graph.EdgeData{e}})
	d := openDevice(t)
	for _, s := range []DeviceSampler{Ladies{Nodes: []int{4}, Weight: "w"}, HGT{Nodes: []int{3}}} {
		d.compareKnown("many edges of a source", g, s, 0)
	}
}

// compareKnown compares samples, each of one variant but where all are asked for, twice: the second time nothing may be
// allocated. It returns how many there were.
func (d *deviceUnderTest) compareKnown(what string, g *graph.Graph, s DeviceSampler, first int) (compared int) {
	d.t.Helper()
	env := Env{Graph: g, BatchSize: 40, EdgePos: true}
	env.EdgePos = !noPositions(s)
	prepared := expect.Must(Prepare(d.t.Context(), s, env))(d.t)
	host := expect.Must(prepared.Open(env))(d.t)
	names := []string{"as opened", "small hash", "int64"}
	if len(g.Schema().Nodes) > 1 {
		names = []string{"hash", "small", "int64 hash"}
	}
	_, own := prepared.(*reversed)
	if _, is := prepared.(preparedSequence); own || is {
		names = names[:2] // it has arrays of its own
	}
	devices := d.openSome(prepared.(DeviceSampler), g, 3, names)
	for round := range 2 {
		for batch, seeds := range []int{3, 12, 1} {
			if round > 0 && batch != 1 && !*heavy && !expect.Night() {
				continue // the largest shows that nothing is allocated
			}
			of := names
			if !*heavy {
				of = of[(first+batch)%len(names):][:1]
			}
			for _, name := range of {
				d.compareOne(fmt.Sprintf("%s, batch %d, %s", what, batch, name), host, devices[name], g, s,
					knownRequest(g, s, batch, seeds))
				compared++
			}
		}
		cudatest.Report(d.t)
		if round == 0 {
			cudatest.FailAllocations(d.t)
		}
	}
	for _, o := range devices {
		expect.OK(d.t, o.Close())
	}
	expect.OK(d.t, host.Close())
	closeAll(d.t, prepared)
	return compared
}

// compareOne compares a sample, or why there is none.
func (d *deviceUnderTest) compareOne(what string, host Worker, o *onDevice, g *graph.Graph, s Sampler, req *Request) {
	d.t.Helper()
	want, got := sampleOf(g, s, 40), sampleOf(g, s, 40)
	refusal := host.Sample(d.t.Context(), req, want)
	err := o.Sample(d.t.Context(), req, got)
	expect.Ensure(d.t, fmt.Sprint(err) == fmt.Sprint(refusal), "%s: %v; the CPU says %v", what, err, refusal)
	if err == nil {
		d.keepsWhatWasSent(what, o)
		diff := expect.Diff(dump(d.t, want), dump(d.t, got))
		expect.Ensure(d.t, diff == "", "%s:\n%s", what, diff)
	}
	_, _ = want.Close(), got.Close()
}

// keepsWhatWasSent sees that no kernel wrote to what it only reads of a batch's description: what lies behind segments,
// where the simulated device finds no bounds.
func (d *deviceUnderTest) keepsWhatWasSent(what string, o *onDevice) {
	d.t.Helper()
	w := o.assembly()
	l, got := &w.layout, make([]byte, len(w.description))
	expect.OK(d.t, d.stream.CopyToHost(got, w.device.Address()))
	expect.OK(d.t, d.stream.Synchronize())
	for _, of := range [][2]int64{{l.bySource, l.own}, {l.size, int64(len(got))}} {
		same := bytes.Equal(got[of[0]:of[1]], w.description[of[0]:of[1]])
		expect.Ensure(d.t, same, "%s: a kernel wrote to bytes %d to %d of the description", what, of[0], of[1])
	}
}

// hubSamplers are those whose kernels cut hubs into slices.
func hubSamplers() map[string]Sampler {
	known, all := knownSamplers(), map[string]Sampler{
		"labor":          Labor{Fanouts: []int{32, 1}, Frontier: AllNodes},
		"labor, many":    Labor{Fanouts: []int{40, All}, Frontier: AllNodes},
		"labor, poisson": Labor{Fanouts: []int{9, 3}, Frontier: AllNodes, Poisson: true},
		"weighted":       Neighbor{Fanouts: []int{32, 3}, Weight: "w", Mask: "m"},
		"again":          Neighbor{Fanouts: []int{40, 3}, Mask: "m", Replace: true},
		"masked":         Neighbor{Fanouts: []int{32, All}, Mask: "m", Share: 0.2},
		"recent":         Neighbor{Fanouts: []int{9, 1}, Time: Temporal{Edge: "t", Recent: true}},
		"all":            Neighbor{Fanouts: []int{All}, Mask: "m"},
	}
	for _, name := range []string{"induced", "shadow", "fastgcn", "half life"} {
		all[name] = known[name]
	}
	return all
}

func TestDevicesShareHubs(t *testing.T) {
	d := openDevice(t)
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 60}},
		Edges: []graph.EdgeData{steadyEdges(rand.New(rand.NewPCG(8, 0)), 60, 60, 800)}})
	all := hubSamplers()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		compared := d.compareKnown(name+", hubs", g, all[name].(DeviceSampler), 0)
		expect.That(t, compared > 0, "%s: nothing was compared", name)
	}
	n, each := 1100, 520
	indptr, indices := []int64{0}, []int32(nil)
	for v := range n {
		for i := range each {
			indices = append(indices, int32((v+i*i)%n))
		}
		indptr = append(indptr, int64(len(indices)))
	}
	g = graphs.CSC(t, indptr, indices)
	req, env := &Request{Seeds: [][]int64{nil}, Rand: NewRand(8, 0, 0, 0)}, Env{Graph: g, BatchSize: n}
	many := Labor{Fanouts: []int{2}} // it keeps the least of each slice, of more slices than there is room for
	for v := range n {
		req.Seeds[0] = append(req.Seeds[0], int64(v))
	}
	host := expect.Must(many.Open(env))(t)
	defer host.Close()
	want, got := sampleOf(g, many, n), sampleOf(g, many, n)
	defer closeAll(t, want, got)
	expect.OK(t, host.Sample(t.Context(), req, want))
	worker := d.open(many, DeviceEnv{Env: env, Topology: d.topology(g, unified.Int32)})
	expect.OK(t, worker.Sample(t.Context(), req, got))
	diff := expect.Diff(dump(t, want), dump(t, got))
	expect.Ensure(t, diff == "", "%s", diff)
}
