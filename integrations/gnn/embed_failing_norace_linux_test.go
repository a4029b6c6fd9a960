//go:build !race

package gnn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// TestEmbeddingSaysWhichCallFailed: each call about a file fails in turn. Then there is the column, or an error that
// says so and the dataset as it was, and the same works when the disk does.
func TestEmbeddingSaysWhichCallFailed(t *testing.T) {
	g, model := communities(t, 300, false), filepath.Join(t.TempDir(), "model")
	expect.OK(t, expect.Err(Train(t.Context(), g, Options{Model: "gin", Epochs: 1, Checkpoint: model})))
	expect.FailingCalls(t, t.TempDir(), expect.Attempt{
		Before: func(dir string) error {
			return formats.WriteGraph(context.Background(), dir, g, formats.WriterOptions{})
		},
		Do: func(dir string) error {
			_, err := Embed(context.Background(), dir, EmbedOptions{Checkpoint: model, MaxMemory: 64 << 20, Workers: 1})
			return err
		},
		State: func(dir string) (string, int) {
			ds, err := formats.Open(dir)
			if err != nil {
				return err.Error(), 0
			}
			defer ds.Close()
			_, beside := os.Stat(dir + ".khop-embed")
			return fmt.Sprintf("%x", ds.ID()), map[bool]int{true: 1}[beside == nil]
		},
		Only: "write pwrite64 ftruncate",
	})
}

// interrupted is a program that fails, and goes on: its bytes, and those that the second run wrote, must be right.
type interrupted struct {
	g      *graph.Graph
	m      *network
	folder string
	want   string
}

func (f *interrupted) program(t testing.TB) *embed.Program {
	return &embed.Program{Graph: f.g, Steps: stepsOf(t, f.g, f.m), Name: f.m.kind}
}

// options are a few ranges a step, each of which is noted when it is finished.
func (f *interrupted) options() embed.Options {
	return embed.Options{Folder: f.folder, Way: embed.Sweeps, Memory: 4400 << 10, Files: true, SaveEvery: 1, Workers: 1}
}

// goesOn runs again after an error, which must have said nodes and a remedy. It returns how many bytes were noted.
func (f *interrupted) goesOn(t testing.TB, err error, says ...string) int64 {
	t.Helper()
	for _, text := range append(says, "run the same again: what is finished is kept") {
		expect.That(t, err != nil && strings.Contains(err.Error(), text), "%q is not in %v", text, err)
	}
	p := f.program(t)
	noted := finishedBytes(t, f.folder, p)
	report := expect.Must(embed.Run(t.Context(), p, f.options()))(t)
	all, wrote := int64(0), int64(0)
	for _, s := range report.Steps {
		all, wrote = all+s.Plan.Written-s.Plan.Scratch, wrote+s.Did.Written-s.Did.Scratch
	}
	expect.That(t, wrote == all-noted, "wrote %d of %d bytes, of which %d were noted", wrote, all, noted)
	f.same(t)
	expect.OK(t, os.RemoveAll(f.folder))
	return noted
}

// same compares the rows with those of a run that nothing has stopped.
func (f *interrupted) same(t testing.TB) {
	t.Helper()
	all := stepsOf(t, f.g, f.m)
	got := string(expect.Must(os.ReadFile(filepath.Join(f.folder, all[len(all)-1].To[0].Name)))(t))
	if f.want == "" {
		f.want = got
	}
	expect.That(t, got == f.want, "the rows differ")
}

// TestWhatIsFinishedIsKeptWhereTheDiskFails makes writes and syncs of a table and of the journal fail in turn, because
// the disk is full or broken.
func TestWhatIsFinishedIsKeptWhereTheDiskFails(t *testing.T) {
	f := &interrupted{g: onDisk(t, communities(t, 6000, false)), folder: filepath.Join(t.TempDir(), "work")}
	f.m = expect.Must(newNetwork(40, 4, Options{Model: "sage", Hidden: 48, Layers: 2}.withDefaults(), &budget{}))(t)
	do := func() error { return expect.Err(embed.Run(t.Context(), f.program(t), f.options())) }
	var err error
	calls := expect.FailingCall(t, f.folder, -1, nil, func() { err = do() })
	expect.OK(t, err)
	f.same(t)
	expect.OK(t, os.RemoveAll(f.folder))
	tried, kept := 0, int64(0)
	for i, c := range calls {
		if c.Name != "pwrite64" && c.Name != "fsync" && c.Name != "write" || filepath.Base(c.Path) == "journal" &&
			kept == 0 && tried > 0 || i%5 > 0 {
			continue
		}
		errno := []unix.Errno{unix.ENOSPC, unix.EIO}[tried%2]
		expect.FailingCall(t, f.folder, i, errno, func() { err = do() })
		expect.That(t, errors.Is(err, errno), "call %d, %v: %v", i, c, err)
		says := []string{c.Path, "make room on its disk"}
		if kept > 0 {
			says = append(says, "layer ")
		}
		kept = max(kept, f.goesOn(t, err, says...))
		tried++
	}
	expect.That(t, tried > 5 && kept > 0, "%d calls failed, and %d bytes were kept at most", tried, kept)
}

// TestWhatIsFinishedIsKeptWhereRowsCannotBeRead cuts the file of the features short while they are read.
func TestWhatIsFinishedIsKeptWhereRowsCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, communities(t, 6000, false), formats.WriterOptions{}))
	ds := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() { _ = ds.Close() })
	f := &interrupted{g: ds.Graph(), folder: filepath.Join(t.TempDir(), "work")}
	f.m = expect.Must(newNetwork(40, 4, Options{Model: "gin", Hidden: 48, Layers: 1}.withDefaults(), &budget{}))(t)
	expect.OK(t, expect.Err(embed.Run(t.Context(), f.program(t), f.options())))
	f.same(t)
	expect.OK(t, os.RemoveAll(f.folder))
	path := expect.Must(filepath.Glob(filepath.Join(dir, "nodes", "*", "feature.arrow")))(t)[0]
	whole := expect.Must(os.ReadFile(path))(t)
	opt := f.options()
	opt.Progress = func(string, int64, int64) { expect.OK(t, os.Truncate(path, int64(len(whole)/2))) }
	_, err := embed.Run(t.Context(), f.program(t), opt)
	expect.That(t, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
	expect.OK(t, os.WriteFile(path, whole, 0o600))
	noted := f.goesOn(t, err, "layer 1: nodes ", "feature of node: row ", "its disk is damaged (khop check)")
	expect.That(t, noted > 0, "nothing was kept")
}

// TestWhatIsFinishedIsKeptWhereALayerFails has a layer of one's own fail, or make NaN, at a block behind others.
func TestWhatIsFinishedIsKeptWhereALayerFails(t *testing.T) {
	const nodes, width = 5 * ownRows, 64
	x := make([]float32, nodes*width)
	for i := range x {
		x[i] = float32(i % 97)
	}
	e := graph.EdgeData{}
	for i := range int64(nodes) {
		e.Src, e.Dst = append(e.Src, i, i*7%nodes), append(e.Dst, i, i)
	}
	columns := map[string]unified.Tensor{"feature": expect.Must(unified.FromRows(x, width))(t)}
	g := graphs.New(t, graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Columns: columns}}})
	dir, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "rows.npy")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, g, formats.WriterOptions{}))
	opt := EmbedOptions{Layers: "sum:64,mean:8", Out: out, Force: true, NoteEvery: 1, MaxMemory: 10 << 20}
	calls, fails := 0, ""
	opt.Rows = func(layer int, _ string, own []float32, sums map[string][]float32, y []float32) error {
		calls++
		for i := range y {
			y[i] = own[i%len(own)] / 2
		}
		switch {
		case calls < 9:
		case fails == "error":
			return errors.New("nothing to divide")
		case fails == "NaN":
			y[5] -= y[5]
			y[5] /= y[5]
		}
		return nil
	}
	expect.OK(t, expect.Err(Embed(t.Context(), dir, opt)))
	expect.Same(t, calls, 10, "blocks of both layers")
	want := string(expect.Must(os.ReadFile(out))(t))
	for _, fails = range []string{"error", "NaN"} {
		calls = 0
		_, err := Embed(t.Context(), dir, opt)
		says := map[string]string{"error": "nothing to divide; mend it", "NaN": "of node 12288 has NaN; see that"}
		for _, text := range []string{"layer 2: nodes 12288 to ", says[fails]} {
			expect.That(t, err != nil && strings.Contains(err.Error(), text), "%q is not in %v", text, err)
		}
		calls, fails = 0, ""
		expect.OK(t, expect.Err(Embed(t.Context(), dir, opt)))
		expect.Same(t, calls, 2, "blocks that were computed again")
		expect.Same(t, string(expect.Must(os.ReadFile(out))(t)), want, "the rows")
	}
}
