package loader_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
)

func TestOptionsArePrintedAndReadBack(t *testing.T) {
	asOf := int64(-3)
	samplers := []sampling.Sampler{
		sampling.Neighbor{Fanouts: []int{15, -1}, PerType: map[string][]int{"cites": {3}}, Frontier: sampling.NewNodes},
		sampling.Neighbor{Fanouts: []int{4}, Weight: "w", Share: 0.25, Direction: sampling.Both, Together: true},
		sampling.Neighbor{Fanouts: []int{2}, Time: sampling.Temporal{Node: "year", HalfLife: 1.5, AsOf: &asOf,
			Rules: []sampling.TimeRule{sampling.Before, sampling.NotAfter}}},
		sampling.Labor{Fanouts: []int{3}, BatchDependency: 4, Poisson: true},
		sampling.HGT{Nodes: []int{5}, PerType: map[string][]int{"paper": {2, 1}}},
		sampling.Walk{Length: 7, Metapath: []string{"a,b", "c"}, Restart: 0.5}, sampling.Induced{},
		sampling.Saint{Kind: sampling.SaintWalks, Budget: 9, Length: 3}, sampling.Cluster{PerBatch: 2},
		sampling.PinSage{Neighbors: 3, Length: 2, As: "x"}, sampling.PPR{Neighbors: 2, Epsilon: 1e-7},
		sampling.Full{Work: 99}, nil,
	}
	changes := []func(o *loader.Options){
		func(o *loader.Options) { o.BatchSize, o.Seed, o.Shuffle, o.DropLast = 7, 1<<64-1, true, true },
		func(o *loader.Options) { o.Columns.Nodes, o.Columns.Edges = []string{}, []string{"w", "a,\"b\""} },
		func(o *loader.Options) {
			o.Links = loader.LinkOptions{Label: "y", ExcludeSeeds: loader.ExcludeReverse,
				Negatives: sampling.Negatives{Ratio: 2.5, Strict: true, Replace: sampling.EitherEnd}}
		},
		func(o *loader.Options) {
			o.Links.Negatives = sampling.Negatives{Ratio: 1, Law: sampling.InBatch, Tries: 3}
		},
		func(o *loader.Options) {
			o.Device = loader.DeviceOptions{Name: "cuda:1", Memory: 1 << 40, Cache: loader.NoDeviceCache,
				HotRows: loader.RankNone}
		},
		func(o *loader.Options) {
			o.Residence, o.Disk = loader.Disk, loader.DiskOptions{CacheBytes: 12345, Lookahead: 3, PackBytes: 1}
		},
		func(o *loader.Options) {
			o.Tuning = loader.TuningOptions{SlotTimeout: 90 * time.Millisecond, Prefetch: 9, Carry: loader.CarryCopies}
		},
		func(o *loader.Options) { o.Columns.Prepare = sparse.Transpose | sparse.Loops },
		func(o *loader.Options) { o.Columns.Prepare, o.Verify, o.MaxMemory = 0, true, 1<<62 },
	}
	for _, s := range samplers {
		o := loader.Options{Sampler: s}
		for i := range changes {
			changes[i](&o)
			text := o.String()
			again, err := loader.ParseOptions(text)
			expect.That(t, err == nil && reflect.DeepEqual(o, again), "%s:\n%+v\n%+v, %v", text, o, again, err)
			expect.That(t, again.String() == text, "%s is printed as %s", text, again.String())
		}
	}
	for _, text := range []string{"", "[]", `{"sampler": "none"}`, `{"sampler": 3}`, `{"batchsize": 3}`,
		`{"batch_size": 0}`, `{"batch_size": "x"}`, `{"sampler": "walk", "fanouts": "3"}`, `{"residence": "moon"}`,
		`{"node_columns": [[1]]}`} {
		if o, err := loader.ParseOptions(text); !errors.Is(err, loader.ErrOptions) {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
}
