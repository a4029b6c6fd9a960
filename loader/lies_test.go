package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// zeroRows is an array of zeros.
func zeroRows(t *testing.T, d unified.DType, shape ...int64) unified.Tensor {
	t.Helper()
	n := d.Size()
	for _, s := range shape {
		n *= s
	}
	return expect.Must(unified.New(d, make([]byte, n), shape...))(t)
}

// block changes the block of a sample.
func block(change func(b *graph.Block)) func(*graph.Sample) {
	return func(s *graph.Sample) { change(&s.Blocks[0][0]) }
}

// spoiled is a change of a sample, and its error: none if it is accepted.
type spoiled struct {
	spoil func(*graph.Sample)
	want  string
}

// spoiledBlocks are changes of the block of a sample.
func spoiledBlocks(t *testing.T) map[string]spoiled {
	return map[string]spoiled{
		"indptr cut": {block(func(b *graph.Block) { b.Indptr = zeroRows(t, unified.Int32, 7) }),
			"Blocks[0][0]: 7 destinations"},
		"positions cut": {block(func(b *graph.Block) { b.EdgePos = zeroRows(t, unified.Int32, 6) }),
			"Blocks[0][0]: edge positions "},
		"fewer destinations": {block(func(b *graph.Block) { b.NumDst-- }), "Blocks[0][0]: 6 destinations, indptr "},
		"no destinations":    {block(func(b *graph.Block) { b.NumDst = -1 }), "Blocks[0][0]: -1 destinations, indptr "},
		"negative sources":   {block(func(b *graph.Block) { b.NumSrc = -1 }), "Blocks[0][0]: 7 destinations, indptr "},
		"indices of 64 bits": {block(func(b *graph.Block) { b.Indices = zeroRows(t, unified.Int64, 7) }),
			"Blocks[0][0]: 7 destinations"},
		"indptr of 64 bits": {block(func(b *graph.Block) { b.Indptr = zeroRows(t, unified.Int64, 8) }),
			"Blocks[0][0]: 7 destinations"},
		"positions of 64 bits": {block(func(b *graph.Block) { b.EdgePos = zeroRows(t, unified.Int64, 7) }),
			"Blocks[0][0]: edge positions "},
		"no positions": {block(func(b *graph.Block) { b.EdgePos = unified.Tensor{} }),
			"Blocks[0][0]: edge positions "},
	}
}

// Each part of what a sampler makes is checked: valid parts are accepted, and each of the others is refused with a
// message.
func TestEachPartOfASampleIsLookedAt(t *testing.T) {
	own := func(d unified.DType, shape ...int64) func(*graph.Sample) {
		return func(s *graph.Sample) { s.Arrays[0].Rows = zeroRows(t, d, shape...) }
	}
	const reshaped, rows = "it reshaped the sample", "array sample/own is "
	all := spoiledBlocks(t)
	maps.Copy(all, map[string]spoiled{
		"rows":              {own(unified.Float32, 4, 2, 3), ""},
		"no rows":           {own(unified.Float32, 0, 2, 3), ""},
		"no array":          {func(*graph.Sample) {}, ""},
		"as many as may be": {own(unified.Float32, 10, 2, 3), ""},
		"one more": {own(unified.Float32, 11, 2, 3),
			"array sample/own has 11 rows, where the sampler's Bound says 10 at most"},
		"rows exchanged":      {own(unified.Float32, 4, 3, 2), rows},
		"wider":               {own(unified.Float32, 4, 2, 4), rows},
		"narrower at first":   {own(unified.Float32, 4, 1, 3), rows},
		"flat":                {own(unified.Float32, 4, 6), rows},
		"a dimension more":    {own(unified.Float32, 4, 2, 3, 1), rows},
		"another dtype":       {own(unified.Int32, 4, 2, 3), rows},
		"an array more":       {func(s *graph.Sample) { s.Arrays = append(s.Arrays, graph.Array{}) }, reshaped},
		"no arrays":           {func(s *graph.Sample) { s.Arrays = nil }, reshaped},
		"a layer more":        {func(s *graph.Sample) { s.Blocks = append(s.Blocks, nil) }, reshaped},
		"no types in a layer": {func(s *graph.Sample) { s.Blocks[0] = nil }, reshaped},
		"a count more":        {func(s *graph.Sample) { s.NumNodes = append(s.NumNodes, nil) }, reshaped},
		"seeds of no type":    {func(s *graph.Sample) { s.SeedLocal = nil }, reshaped},
		"counts of no type":   {func(s *graph.Sample) { s.NumNodes[1] = nil }, "NumNodes is [[7] []]"},
		"a negative count":    {func(s *graph.Sample) { s.NumNodes[0][0] = -1 }, "NumNodes is [[-1] [8]]"},
		"fewer nodes later":   {func(s *graph.Sample) { s.NumNodes[0][0] = 9 }, "NumNodes is [[9] [8]]"},
		"more nodes":          {func(s *graph.Sample) { s.NumNodes[1][0] = 9 }, "but there are 9 nodes"},
		"nodes twice as wide": {func(s *graph.Sample) { s.Nodes[0] = zeroRows(t, unified.Int64, 8) },
			"but there are 8 nodes"},
		"nodes in rows": {func(s *graph.Sample) { s.Nodes[0] = zeroRows(t, unified.Int32, 8, 1) },
			"but there are 8 nodes"},
		"wide seeds":       {func(s *graph.Sample) { s.SeedLocal[0] = zeroRows(t, unified.Int64, 7) }, " for 7 seeds"},
		"no seeds":         {func(s *graph.Sample) { s.SeedLocal[0] = unified.Tensor{} }, " for 7 seeds"},
		"no layers":        {func(s *graph.Sample) { s.Blocks = nil }, reshaped},
		"nodes of no type": {func(s *graph.Sample) { s.Nodes = nil }, reshaped},
		"floats as nodes": {func(s *graph.Sample) { s.Nodes[0] = zeroRows(t, unified.Float32, 8) },
			"but there are 8 nodes"},
		"fewer nodes": {func(s *graph.Sample) { s.Nodes[0] = zeroRows(t, unified.Int32, 7) },
			"but there are 8 nodes"},
		"a node beyond":   {func(s *graph.Sample) { view[int32](t, s.Nodes[0])[7] = 100 }, "epoch 0, batch 0: "},
		"a negative node": {func(s *graph.Sample) { view[int32](t, s.Nodes[0])[7] = -1 }, "epoch 0, batch 0: "},
	})
	for name, c := range all {
		bound := func(b *sampling.Bound) {
			b.Arrays = []sampling.ArrayBound{{Column: graph.Column{Name: "own", DType: unified.Float32,
				Shape: []int64{2, 3}}, Rows: 10}}
		}
		looked(t, name, loader.Options{Sampler: cycle{spoil: c.spoil, bound: bound}}, c.want)
	}
}

// looked loads one batch of 7 seeds, whose last error must say so.
func looked(t *testing.T, name string, opt loader.Options, want string) {
	t.Helper()
	opt.BatchSize, opt.Workers, opt.Columns.EdgePos, opt.Device.Name = 7, 1, true, "cpu"
	opt.Seeds = loader.NodeIDs([]int64{3, 4, 5, 6, 7, 8, 9})
	l, err := loader.New(graphs.Plain(t, 100, 3), opt)
	if err == nil {
		err = lastError(l.Epoch(background, 0))
		failed := l.Close()
		expect.That(t, failed == nil, "%s: %v", name, failed)
	}
	if want == "" && err != nil || want != "" && (!errors.Is(err, loader.ErrSampler) &&
		!errors.Is(err, gather.ErrRange) || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// What a sampler says of its batches holds to the last node and edge.
func TestASamplersBoundHoldsToTheLastNode(t *testing.T) {
	for less := range int64(2) {
		for says, bound := range map[string]func(b *sampling.Bound){
			"a batch of 8 nodes, where its Bound says 7 at most": func(b *sampling.Bound) { b.Nodes = 8 - less },
			"/node has 8 rows, where the sampler's Bound says 7 at": func(b *sampling.Bound) {
				b.Lists = []int64{8 - less}
			},
			" has 7 rows, where the sampler's Bound says 6 at most": func(b *sampling.Bound) { b.Edges = 7 - less },
			"indices has 7 rows, where the sampler's Bound says 6": func(b *sampling.Bound) {
				b.Blocks = [][]int64{{7 - less}}
			},
		} {
			looked(t, says, loader.Options{Sampler: cycle{bound: bound}}, says[:len(says)*int(less)])
		}
	}
}

// Every number of the options is taken from its least to its greatest value, and beyond that refused by its name.
func TestNumbersOfOptionsAreTakenUpToTheirLimits(t *testing.T) {
	const endless = 1<<63 - 1
	for path, c := range map[string][2]int64{
		"BatchSize": {1, 1 << 30}, "WorldSize": {1, 1 << 30}, "Rank": {0, 2}, "Workers": {1, 4096},
		"Tuning.Prefetch": {1, 4096}, "Remainder": {0, 2}, "Disk.CacheBytes": {0, endless},
		"Disk.PackBytes":  {0, endless},
		"Columns.Prepare": {0, 7}, "MaxMemory": {0, endless}, "Hooks.PerSlot": {0, endless},
		"Device.Memory": {0, endless},
		"Device.Cache":  {-1, endless}, "Tuning.DeviceBlocks": {0, 1 << 20}, "Tuning.SlotTimeout": {1, endless},
		"Disk.Lookahead": {1, diskio.MaxLookahead}, "Residence": {0, 3}, "Links.ExcludeSeeds": {0, 2},
		"Tuning.HostPages": {0, 1}, "Tuning.Carry": {0, 2}, "Tuning.HotShare": {0, int64(loader.ShareAll)},
		"Device.HotRows": {0, 4},
	} {
		for v, taken := range map[int64]bool{c[0] - 1: false, c[0]: true, c[1]: true, c[1] + 1: false} {
			if c[1] == endless && v == -1<<63 {
				continue // there is no greater number
			}
			opt := loader.Options{Sampler: neighbor, WorldSize: 3}
			opt.EnsureDefaults()
			field := reflect.ValueOf(&opt).Elem()
			for _, part := range strings.Split(path, ".") {
				field = field.FieldByName(part)
			}
			if field.CanUint() {
				if v < 0 {
					continue
				}
				field.SetUint(uint64(v))
			} else {
				field.SetInt(v)
			}
			err := opt.Validate()
			text := strings.Replace(fmt.Sprint(err), "0 (the default) or ", "", 1) // where 0 is no number of the range
			says := fmt.Sprintf(": %s is %d: must be %d to %d", path, v, c[0], c[1])
			if c[1] == endless {
				says = fmt.Sprintf(": %s is %d: must be %d or more", path, v, c[0])
			}
			if taken && err != nil || !taken && (!errors.Is(err, loader.ErrOptions) ||
				!strings.HasSuffix(text, says)) {
				t.Errorf("%s of %d: %v", path, v, err)
			}
		}
	}
}

// Verifying says how far it is, from the first byte to the last, of what is verified at once.
func TestVerifyingSaysHowFarItIs(t *testing.T) {
	g := graphs.Plain(t, 500, 4)
	topology, columns := int64(501*8+2000*4), int64(500*(12+8)+2000*4)
	for residence, want := range map[loader.Residence]int64{loader.Mapped: topology,
		loader.Resident: topology + columns} {
		last, calls := int64(0), 0
		opt := loader.Options{Sampler: neighbor, Columns: loader.ColumnOptions{Edges: []string{"weight"}},
			Verify: true, Residence: residence,
			Hooks: loader.Hooks{Progress: func(stage string, done, total int64) {
				if stage != "verify" {
					return
				}
				if calls++; done < last || total != want {
					t.Errorf("%v: %d of %d after %d, want %d", residence, done, total, last, want)
				}
				last = done
			}}}
		open(t, storedGraph(t, g), opt)
		expect.That(t, last == want && calls >= 2, "%v: %d bytes of %d in %d steps", residence, last, want, calls)
	}
}

// What an estimate says to be read from files is what is not copied.
func TestAnEstimateSaysWhatIsReadFromFiles(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	onDisk := open(t, g, opt).Estimate()
	opt.Residence = loader.Mapped
	mapped := open(t, g, opt).Estimate()
	copied := onDisk.Bound.Columns - opt.Disk.CacheBytes
	if mapped.FileBytes == 0 || onDisk.FileBytes > mapped.FileBytes || onDisk.FileBytes < mapped.FileBytes-
		onDisk.Bound.Columns || onDisk.FileBytes == 0 {
		t.Errorf("%d bytes are read from files of %d, %d are copied", onDisk.FileBytes, mapped.FileBytes, copied)
	}
}

// A state of links names what else decides what is in a batch; the log says of a loader what its estimate has.
func TestALoaderOfLinksSaysWhatItLoads(t *testing.T) {
	log := &bytes.Buffer{}
	opt := loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(), BatchSize: 50, Workers: 2,
		Links: loader.LinkOptions{ExcludeSeeds: loader.ExcludeReverse, Negatives: sampling.Negatives{Ratio: 2}},
		Hooks: loader.Hooks{Logger: slog.New(slog.NewTextHandler(log, nil))}}
	l := open(t, graphs.Typed(t, 60, 40), opt)
	want := fmt.Sprintf("%s links label=\"\" time=\"\" exclude=%v %s", neighbor.Fingerprint(), loader.ExcludeReverse,
		opt.Links.Negatives.Fingerprint())
	got := l.State(0, 0).Sampler
	expect.That(t, got == want, "got %s, want %s", got, want)
	e := l.Estimate()
	want = fmt.Sprintf("device=cpu workers=2 slots=%d memory=%d memory_bound=%d device_memory=0", e.Slots,
		e.Expected.Total(), e.Bound.Total())
	if text := log.String(); !strings.Contains(text, `msg="loader ready" source=`) || !strings.Contains(text, want) {
		t.Errorf("the log says %s, want %s", text, want)
	}
}
