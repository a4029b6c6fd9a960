package loader_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Options that are not set have the defaults that their comments say, and those that are set stay.
func TestDefaultsAreThoseOfTheComments(t *testing.T) {
	got := loader.Options{Sampler: neighbor}
	if back := got.EnsureDefaults(); back != &got {
		t.Error("other options are returned")
	}
	want := loader.Options{Sampler: neighbor, BatchSize: 1024, WorldSize: 1, Workers: machine.Workers(), Prefetch: 2,
		Lookahead: 64, Device: "auto", SlotTimeout: time.Minute}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	set := loader.Options{Sampler: neighbor, BatchSize: 1, WorldSize: 2, Workers: 3, Prefetch: 4, Lookahead: 5,
		Device: "cpu", SlotTimeout: 6, Rank: 1}
	if got := *(&set).EnsureDefaults(); !reflect.DeepEqual(got, set) || got.BatchSize != 1 || got.SlotTimeout != 6 {
		t.Errorf("%+v, want %+v", got, set)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if l := open(t, plainGraph(t, 60, 4), loader.Options{Sampler: neighbor}); l.Options().BatchSize != 1024 ||
		l.Options().Prefetch != 2 || l.Options().SlotTimeout != time.Minute {
		t.Errorf("%+v", l.Options())
	}
}

// What reading from a disk takes is counted, once for all loaders: as many bytes as who reads says.
func TestWhatReadsFromADiskIsCounted(t *testing.T) {
	needDisk(t)
	fixed := disk.ReaderOptions{Depth: 4}
	loader.ReadWith(t, fixed)
	g, _ := inFiles(t, plainGraph(t, 2000, 6), true)
	column, _ := g.NodeColumn(0, "feature")
	var rows, pages pinned.Ledger
	fixed.Memory = pinned.Options{Ledger: &rows, Purpose: pinned.Scratch}
	reader, _, err := disk.Open(background, []disk.Mapped{{Bytes: column.Bytes(), RowBytes: 12}}, fixed)
	if err != nil {
		t.Fatal(err)
	}
	fixed.Memory.Ledger = &pages
	of, err := disk.OpenPages([]disk.Mapped{disk.Mapping(unified.FromSlice(g.Indptr())), disk.Mapping(g.Indices())},
		disk.PagesOptions{Bytes: 900, Reader: fixed})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"rows": rows.Total(), "topology": pages.Total(), "both": rows.Total() + pages.Total()}
	if err := reader.Close(); err != nil || of.Close() != nil || want["rows"] == 0 || want["topology"] == 0 {
		t.Fatalf("%v: %v", want, err)
	}
	for what, n := range want {
		opt := pagedOptions
		opt.CacheBytes = 900
		if what != "topology" {
			opt.NodeColumns = []string{"feature"}
		}
		src := g
		if what == "rows" {
			src = onDisk(t, plainGraph(t, 2000, 6))
		}
		p := place(t, src, opt, 2)
		if held := p.Ledger().Used(pinned.Scratch); held != n || held != p.Ledger().Total() {
			t.Errorf("%s: %d bytes are counted, want %d", what, held, n)
		}
	}
}

// A state of links names the columns of their labels and times, each as what it is.
func TestAStateNamesLabelsAndTimes(t *testing.T) {
	l := open(t, columnsGraph(t, 1, 30, 150), loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(),
		LinkLabel: "mask", LinkTime: "time", BatchSize: 50})
	if got := l.State(0, 0).Sampler; !strings.Contains(got, ` links label="mask" time="time" exclude=none `) {
		t.Errorf("%s", got)
	}
}
