package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	tags "github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Statistics are the sums over the batches that the loop received; layers that are views of one another count once.
func TestStatsAreTheSumsOfWhatTheLoopReceived(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	for i, f := range []sampling.Frontier{sampling.AllNodes, sampling.NewNodes, sampling.NewNodes} {
		s := sampling.Neighbor{Fanouts: [][]int{{3, 2, 2}, {3, 2, 2}, {1, 1, 1}}[i], Frontier: f}
		l := open(t, g, loader.Options{Sampler: s, BatchSize: []int{7, 7, 1}[i], Seeds: loader.AllNodes(),
			Columns: loader.ColumnOptions{Edges: []string{"stars"}}})
		var want loader.Stats
		add := func(x unified.Tensor) {
			want.Rows, want.Bytes = want.Rows+uint64(x.Len()), want.Bytes+uint64(len(x.Bytes()))
		}
		for b := range each(t, l.Epoch(background, 0)) {
			want.Batches++
			for _, n := range b.Sample.NumNodes[3] {
				want.Nodes += uint64(n)
			}
			add(b.Node(0, "feature"))
			add(b.Node(1, "feature"))
			add(b.Seed(0, "label"))
			for layer := range b.Sample.Blocks {
				for e := range b.Sample.Blocks[layer] {
					if layer == 0 || f == sampling.AllNodes {
						want.Edges += uint64(b.Sample.Blocks[layer][e].NumEdges())
						add(b.Edge(layer, e, "stars"))
					}
				}
			}
		}
		is := l.Stats()
		got := loader.Stats{Batches: is.Batches, Nodes: is.Nodes, Edges: is.Edges, Rows: is.Rows, Bytes: is.Bytes}
		expect.That(t, reflect.DeepEqual(got, want), "%s: %+v, want %+v", s.Fingerprint(), got, want)
		for what, d := range map[string]loader.Durations{"deliver": is.Deliver, "wait": is.Wait, "body": is.Body} {
			expect.That(t, d.Count == want.Batches, "%s: %d durations of %d batches", what, d.Count, want.Batches)
		}
	}
}

// Array.Most is what memory is planned by: the seeds, the fan-outs' products, or what the graph has.
func TestMostRowsAreWhatOptionsAllow(t *testing.T) {
	const e = "node:edge:node"
	l := open(t, graphs.Plain(t, 1000, 5), loader.Options{Sampler: neighbor, BatchSize: 5,
		Columns: loader.ColumnOptions{Edges: []string{"weight"}}})
	want := map[string]int64{"num_nodes": 3, "nodes/node": 100, "seeds/node": 5, "input/node": 5, "item/node": 5,
		"node/node/feature": 100, "seed/node/label": 5}
	for layer, edges := range []int64{75, 20} {
		block := fmt.Sprintf("block/%d/%s/", layer, e)
		want[block+"indptr"], want[block+"indices"], want[block+"edge_pos"] = 101, edges, edges
		want[fmt.Sprintf("edge/%d/%s/weight", layer, e)] = edges
	}
	slot, page := int64(0), int64(os.Getpagesize())
	for _, a := range l.Arrays() {
		most, ok := want[a.Name]
		expect.That(t, ok && a.Most == most, "%s has at most %d rows, want %d", a.Name, a.Most, most)
		delete(want, a.Name)
		rows := a.Most
		switch a.Kind {
		case layout.NumNodes, layout.Items: // in the Go heap
			continue
		case layout.Nodes: // samplers may write beyond the last
			rows += 1024
		}
		row := a.DType.Size()
		for _, d := range a.Row {
			row *= d
		}
		slot += (rows*row + page - 1) / page * page
	}
	expect.That(t, len(want) <= 0 && l.Estimate().SlotBound == slot,
		"%v are not there; a slot is said to take %d, want %d", want, l.Estimate().SlotBound, slot)
	links := open(t, graphs.Typed(t, 60, 40), loader.Options{Sampler: neighbor, BatchSize: 9,
		Seeds: loader.AllEdges("friend")})
	for name, most := range map[string]int64{"seeds/item": 0, "seeds/user": 18} { // both ends are users
		if i, err := links.Find(name); err != nil || links.Arrays()[i].Most != most {
			t.Errorf("%s of friends: want at most %d rows: %+v, %v", name, most, links.Arrays()[max(i, 0)], err)
		}
	}
	few := open(t, graphs.Typed(t, 60, 40), loader.Options{Sampler: neighbor, Seeds: loader.AllNodes("item")})
	for name, most := range map[string]int64{"seeds/item": 40, "seeds/user": 0, "nodes/item": 40, "nodes/user": 60} {
		if i, err := few.Find(name); err != nil || few.Arrays()[i].Most != most {
			t.Errorf("%s: want at most %d rows: %+v, %v", name, most, few.Arrays()[max(i, 0)], err)
		}
	}
}

func TestRanksAreToldHowManyBatchesCome(t *testing.T) {
	g := graphs.Plain(t, 220, 5) // 11 batches of 10
	for _, world := range []int{1, 2, 3, 4, 30} {
		for _, remainder := range []loader.Remainder{loader.Pad, loader.Drop, loader.Short} {
			for rank := range world {
				l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 10, Rank: rank, WorldSize: world,
					Remainder: remainder, Workers: 1})
				if n := l.AllBatches(); n != 11 || l.NumSeeds() != 110 {
					t.Fatalf("%d batches of %d seeds", n, l.NumSeeds())
				}
				for next := range uint64(13) {
					left, n := max(11-int(next), 0), 0
					want := map[loader.Remainder]int{loader.Pad: (left + world - 1) / world, loader.Drop: left / world,
						loader.Short: len(numbers(rank, left, world))}[remainder]
					for b, err := range l.Range(background, 0, next, 100) {
						number := next + uint64(rank+n*world)
						expect.Ensure(t, err == nil && b.Number == number%11 && b.Padded == (number >= 11),
							"rank %d of %d, from %d: batch %d is not %d: %v", rank, world, next, n, number, err)
						n++
					}
					if said := l.NumBatchesFrom(next); n != want || said != uint64(want) {
						t.Errorf("rank %d of %d, %v, from %d: %d batches, want %d; %d were said", rank, world,
							remainder, next, n, want, said)
					}
				}
			}
		}
	}
}

// numbers returns from, from+step, .. below end.
func numbers(from, end, step int) (list []int) {
	for ; from < end; from += step {
		list = append(list, from)
	}
	return list
}

func TestNamesOfOptionsAreReadAndWritten(t *testing.T) {
	for list, of := range map[string]any{
		"remainder: pad, drop, short":                           &loader.Options{},
		"residence: mapped, resident, disk, auto":               &loader.Options{},
		"exclude-seeds: none, seeds, reverse":                   &loader.LinkOptions{},
		"hot-rows: in-degree, pagerank, presample, uses, none":  &loader.DeviceOptions{},
		"host-pages: ladder, measured":                          &loader.TuningOptions{},
		"carry: kernels, copies, measured":                      &loader.TuningOptions{},
		"hot-share: auto, none, all":                            &loader.TuningOptions{},
		"frontier: new, all":                                    &sampling.Neighbor{},
		"direction: in, out, both":                              &sampling.Neighbor{},
		"negatives: uniform, degree, weight, batch, historical": &sampling.Negatives{},
		"corrupt: target, source, either, both":                 &sampling.Negatives{},
	} {
		name, values, _ := strings.Cut(list, ": ")
		all := tags.Of(of)
		o := &all[slices.IndexFunc(all, func(o tags.Option) bool { return o.Name == name })]
		field := reflect.ValueOf(of).Elem().FieldByName(o.Path)
		for i, value := range strings.Split(values, ", ") {
			err := given.Set(o, of, value)
			expect.That(t, err == nil && field.Uint() == uint64(i) && fmt.Sprint(field) == value,
				"%s is %v, number %d: %v, not %s", name, field, field.Uint(), err, value)
		}
		field.SetUint(9)
		expect.That(t, fmt.Sprint(field) == "unknown(9)", "%s: one beyond is %v", name, field)
		err := given.Set(o, of, "other")
		expect.That(t, err != nil && strings.Contains(err.Error(), "must be one of ") &&
			strings.Contains(err.Error(), values+`, not "other"`), "%s: %v", name, err)
	}
}

func TestDeviceNames(t *testing.T) {
	for name, want := range map[string]int{"auto": -1, "cpu": -1, "cuda": 0, "cuda:0": 0, "cuda:7": 7} {
		got, err := loader.ParseDevice(name)
		expect.That(t, err == nil && got == want, "%q: %d, %v; want %d", name, got, err, want)
	}
	for _, name := range []string{"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999", "CUDA", "cuda0"} {
		expect.Is(t, expect.Err(loader.ParseDevice(name)), loader.ErrOptions, name)
	}
}

func TestCopyToWantsRoomForTheTensor(t *testing.T) {
	l := open(t, graphs.Plain(t, 50, 4), loader.Options{Sampler: neighbor})
	for b := range each(t, l.Epoch(background, 0)) {
		x := b.X()
		n := len(x.Bytes())
		for _, size := range []int{n - 1, n, n + 1} {
			to := make([]byte, size)
			err := b.CopyTo(to, x)
			if size == n && (err != nil || !bytes.Equal(to, x.Bytes())) ||
				size != n && !errors.Is(err, unified.ErrShape) {
				t.Errorf("%d bytes into %d: %v", n, size, err)
			}
		}
	}
}
