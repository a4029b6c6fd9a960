package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// lines is a log, without times and what is written for other reasons than a test has.
type lines struct{ bytes.Buffer }

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// all returns the lines, but for those with some of the texts.
func (l *lines) all(without ...string) (list []string) {
	for line := range strings.Lines(l.String()) {
		keep := true
		for _, w := range without {
			keep = keep && !strings.Contains(line, w)
		}
		if keep {
			list = append(list, strings.TrimSpace(line))
		}
	}
	l.Reset()
	return list
}

// why is how a log says why an array lies in no file.
func why(x unified.Tensor) string {
	_, _, err := pinned.OpenMapped(x.Bytes())
	return fmt.Sprintf("reason=%q", fmt.Sprint(err))
}

// What a loader decides for its user stands in the log, as does the end of an epoch.
func TestTheLogSaysWhatWasDecided(t *testing.T) {
	log := &lines{}
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1, Hooks: loader.Hooks{Logger: log.logger()}}
	l := open(t, graphs.Typed(t, 20, 10), opt)
	if d := expect.Diff([]string{`level=INFO msg="no train split: all nodes are seeds"`},
		log.all("loader ready")); d != "" {
		t.Error(d)
	}
	digests(t, l.Range(background, 3, 1, 1))
	text := log.String()
	if !regexp.MustCompile(`(?m)^level=DEBUG msg="epoch ended" epoch=3 first=1 duration=[0-9.]+[µnm]?s$`).
		MatchString(text) {
		t.Errorf("the log says %s", text)
	}
	log.Reset()
	open(t, graphs.Plain(t, 60, 4), opt)
	got := log.all("loader ready")
	expect.That(t, len(got) == 0, "the log says %q", got)
	loader.GroupRoom(t, 1<<30)
	opt.MaxMemory = 1 << 30
	open(t, graphs.Plain(t, 60, 4), opt)
	opt.MaxMemory++
	if got := open(t, graphs.Plain(t, 60, 4), opt).Answer().MaxMemory; got != 1<<30 {
		t.Errorf("MaxMemory is %d", got)
	}
	if d := expect.Diff([]string{`level=WARN msg="MaxMemory is lowered to what the control group leaves" ` +
		`max_memory=1073741825 room=1073741824`}, log.all("loader ready")); d != "" {
		t.Error(d)
	}
}

// What is read from a disk, and how, stands in the log, as does what is not, and why.
func TestTheLogSaysWhatIsReadFromADisk(t *testing.T) {
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 6})
	log := &lines{}
	opt := onDiskOptions
	opt.Hooks.Logger, opt.Columns.Seeds = log.logger(), []string{}
	needDisk(t)
	g := graphs.Plain(t, 800, 4)
	x, _ := g.NodeColumn(0, "feature")
	open(t, g, opt)
	where := `level=INFO msg="an array of the topology is read in place, not from disk" bytes=%d %s`
	if d := expect.Diff([]string{
		`level=INFO msg="a column is read in place, not from disk" column=feature ` + why(x),
		fmt.Sprintf(where, 801*8, why(unified.FromSlice(g.Indptr()))), fmt.Sprintf(where, 3200*4, why(g.Indices())),
	}, log.all("loader ready", "trial")); d != "" {
		t.Error(d)
	}
	g, _ = inFiles(t, g, true)
	l := open(t, g, opt)
	s := l.Stats()
	p, q := s.OnDisk.Probe, s.TopologyOnDisk.Probe
	cache := (8000/12*12 + 4095) / 4096 * 4096
	if d := expect.Diff([]string{
		fmt.Sprintf(`level=INFO msg="columns are read through a cache" columns=1 engine=%s refused=%q buffered=%q `+
			`depth=6 cache=%d`, p.Engine, p.Refused, p.Buffered, cache),
		fmt.Sprintf(`level=INFO msg="the topology is read from disk" bytes=%d cache=8000 engine=%s refused=%q depth=6`,
			801*8+3200*4, q.Engine, q.Refused),
	}, quoted(log.all("loader ready", "trial"))); d != "" {
		t.Error(d)
	}
	if s.TopologyOnDisk.Bytes != 801*8+3200*4 || s.TopologyOnDisk.CacheBytes != 8000 || q.Depth != 6 || p.Depth != 6 {
		t.Errorf("%+v", s.TopologyOnDisk)
	}
}

// quoted puts every text of a reason in quotes, which a log does where it has to.
func quoted(list []string) []string {
	bare := regexp.MustCompile(`(refused|buffered)=([^" ]+)`)
	for i := range list {
		list[i] = bare.ReplaceAllString(list[i], `$1="$2"`)
	}
	return list
}

// The topology and all arrays that rows are made of are read ahead, up to half of the memory.
func TestWhatIsReadAheadFitsHalfOfMemory(t *testing.T) {
	g := narrowGraph(t)
	if err := pinned.Populate(unified.FromSlice(g.Indptr()).Bytes()); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system reads nothing ahead")
	}
	total := int64(0)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Columns: loader.ColumnOptions{Widen: []string{"float32"},
		Edges: []string{}},
		Hooks: loader.Hooks{Progress: func(stage string, done, of int64) {
			if stage == "read ahead" {
				total = of
			}
		}}}
	need := open(t, g, opt).Estimate().FileBytes
	for room, want := range map[int64]int64{2 * need: 51*8 + 3*4 + 50*(9+4+8), 2*need - 1: 0} {
		total = 0
		loader.AvailableMemory(t, room)
		open(t, g, opt)
		expect.That(t, total == want, "with room for %d, of %d bytes: %d were read ahead, want %d", room, need, total,
			want)
	}
}

// linkSource is a graph with a split of links.
type linkSource struct {
	loader.Source
	links graph.Seeds
}

func (s linkSource) Split(string, int) (graph.Seeds, error) { return s.links, nil }

// TestTheLogSaysThatLinksToPredictAreFollowed where the dataset has the column that leaves them out, and the sampler
// does not read it.
func TestTheLogSaysThatLinksToPredictAreFollowed(t *testing.T) {
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 9}}, Edges: []graph.EdgeData{{Src: []int64{1, 2, 3},
		Dst: []int64{4, 5, 6}, Columns: map[string]unified.Tensor{"val_graph": unified.FromSlice([]uint8{1, 0, 1})}}}})
	src := linkSource{g, graph.EdgePairs([]int32{2}, []int32{5})}
	for mask, want := range map[string]int{"": 1, "val_graph": 0} {
		log, of := &lines{}, neighbor
		of.Mask = mask
		open(t, src, loader.Options{Sampler: of, Seeds: loader.Split("val"), Hooks: loader.Hooks{Logger: log.logger()}})
		got := log.all("loader ready", "batches have no")
		expect.That(t, len(got) == want && (want == 0 || strings.Contains(got[0], "links=1 mask=val_graph")), "%q", got)
	}
}
