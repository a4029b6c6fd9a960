package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// asker is a process that asks khop embed --live.
type asker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	file   *os.File // of arrays
	ready  map[string]any
	blocks func(line map[string]any) // what answers those of layers
}

// askLive starts khop embed DATASET --live, and waits until it is ready.
func askLive(t *testing.T, blocks func(map[string]any), args ...string) *asker {
	t.Helper()
	a := startLive(t, blocks, args...)
	a.ready = expect.Must(a.answer())(t)
	expect.Ensure(t, a.ready["ready"] == true, "%v", a.ready)
	return a
}

// startLive starts khop embed DATASET --live.
func startLive(t *testing.T, blocks func(map[string]any), args ...string) *asker {
	t.Helper()
	a := &asker{blocks: blocks}
	a.file = expect.Must(os.Create(filepath.Join(t.TempDir(), "arrays")))(t)
	t.Cleanup(func() { _ = a.file.Close() })
	a.cmd = process(t, program(t), append(append([]string{"embed"}, args...), "--live", "--changes", a.file.Name())...)
	a.cmd.Stderr = os.Stderr
	a.in = expect.Must(a.cmd.StdinPipe())(t)
	a.out = bufio.NewReader(expect.Must(a.cmd.StdoutPipe())(t))
	expect.OK(t, a.cmd.Start())
	return a
}

// answer returns the next answer that is no block.
func (a *asker) answer() (of map[string]any, err error) {
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		of = nil
		if err := json.Unmarshal(line, &of); err != nil {
			return nil, err
		}
		if of["layer"] == nil {
			return of, nil
		}
		a.blocks(of)
		if _, err := a.in.Write([]byte("\n")); err != nil {
			return nil, err
		}
	}
}

func (a *asker) ask(line string) (map[string]any, error) {
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		return nil, err
	}
	return a.answer()
}

// putArray writes an array to the file, and returns where its next one begins.
func putArray[T int64 | float32](t *testing.T, f *os.File, at int64, x []T) int64 {
	t.Helper()
	n := expect.Must(f.WriteAt(unified.FromSlice(x).Bytes(), at))(t)
	return at + int64(n)
}

// all returns the rows of the first nodes.
func (a *asker) all(t *testing.T, nodes int, width int) []byte {
	t.Helper()
	ids := make([]int64, nodes)
	for i := range ids {
		ids[i] = int64(i)
	}
	to := putArray(t, a.file, 0, ids)
	rows := make([]byte, nodes*width*4)
	expect.OK(t, a.file.Truncate(to+int64(len(rows))))
	got := expect.Must(a.ask(fmt.Sprintf(`{"rows":{"count":%d,"ids_at":0,"to_at":%d}}`, nodes, to)))(t)
	expect.That(t, got["generation"] != nil, "%v", got)
	expect.OK(t, expect.Err(a.file.ReadAt(rows, to)))
	return rows
}

// end ends the input, which ends khop.
func (a *asker) end(t *testing.T) {
	t.Helper()
	expect.OK(t, a.in.Close(), a.cmd.Wait())
}

// columnOf returns the bytes of a column of a dataset.
func columnOf(t *testing.T, dir, name string) []byte {
	t.Helper()
	ds := expect.Must(formats.Open(dir))(t)
	defer ds.Close()
	c, ok := ds.Graph().NodeColumn(0, name)
	expect.Ensure(t, ok, "no column %s", name)
	return bytes.Clone(c.Bytes())
}

// TestLiveRowsAreThoseOfTheChangedDataset changes features by requests, and compares rows with those of khop embed
// before and after khop add changes them in the dataset. What was acknowledged is there when all is opened again.
func TestLiveRowsAreThoseOfTheChangedDataset(t *testing.T) {
	data, folder := small(t), t.TempDir()
	model, journal := filepath.Join(folder, "model"), filepath.Join(folder, "journal")
	must(t, "train", data, "--epochs", "1", "--checkpoint", model)
	must(t, "embed", data, "--checkpoint", model, "--out", "before")
	before := columnOf(t, data, "before")
	args := []string{data, "--checkpoint", model, "--journal", journal}
	a := askLive(t, nil, args...)
	nodes, width := 2000, int(a.ready["width"].(float64))
	expect.Same(t, a.ready, map[string]any{"ready": true, "generation": 0.0, "nodes": 2000.0, "width": float64(width),
		"in_files": false})
	expect.That(t, bytes.Equal(a.all(t, nodes, width), before), "rows before changes")
	features := make([]float32, nodes*9)
	unified.Float32.Floats(features, columnOf(t, data, graph.Feature.String()))
	copy(features[9*7:], []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18})
	to := putArray(t, a.file, putArray(t, a.file, 0, []int64{8, 7}), append(append([]float32{}, features[72:81]...),
		features[63:72]...))
	report := expect.Must(a.ask(`{"apply":{"features":[{"count":2,"ids_at":0,"rows_at":16}]}}`))(t)
	expect.That(t, report["generation"] == 1.0 && report["feature_rows"] == 2.0, "%v", report)
	for line, kind := range map[string]string{
		`{"apply":{"add":[{"count":1,"src_at":0,"dst_at":3000000}]}}`: "request",
		`{"rows":{"count":1,"ids_at":-1,"to_at":0}}`:                  "request",
		`{"rows":{"count":4611686018427387904,"ids_at":0,"to_at":0}}`: "request",
		`{"rows":{},"compact":{}}`:                                    "request",
		`{"sing":{}}`:                                                 "request",
		`nothing`:                                                     "request",
		`{"apply":{"features":[{"type":"user","count":0,"ids_at":0,"rows_at":0}]}}`:        "changes",
		fmt.Sprintf(`{"apply":{"add":[{"count":1,"src_at":%d,"dst_at":%d}]}}`, to-8, to-8): "changes",
		fmt.Sprintf(`{"rows":{"count":1,"ids_at":%d,"to_at":0}}`, to-8):                    "rows",
		`{"apply":{"remove":[{"edges":"likes","count":0,"src_at":0,"dst_at":0}]}}`:         "changes",
	} {
		got := expect.Must(a.ask(line))(t)
		expect.That(t, got["kind"] == kind && got["error"] != "", "%s: %v", line, got)
	}
	got := expect.Must(a.ask(`{"compact":{}}`))(t)
	expect.Same(t, got, map[string]any{"generation": 1.0})
	command := append(append([]string{"embed"}, args...), "--live", "--changes", a.file.Name())
	fails(t, exitFailed, "another process has it open", command...)
	a.end(t)
	file := filepath.Join(folder, "new.npy")
	expect.OK(t, os.WriteFile(file, expect.NPY(features, nodes, 9), 0o600))
	again := askLive(t, nil, args...)
	expect.Same(t, again.ready["generation"], 1.0)
	live := again.all(t, nodes, width)
	again.end(t)
	must(t, "add", data, "--column", "feature="+file, "--force")
	must(t, "embed", data, "--checkpoint", model, "--out", "after")
	expect.That(t, bytes.Equal(live, columnOf(t, data, "after")), "rows after changes")
	expect.That(t, !bytes.Equal(live, before), "rows have changed")
	fails(t, exitFailed, "another dataset", command...)
}

// TestLiveLayersOfAnotherProcessFollowChanges: who asks computes layers, in turns with the answers to its requests.
func TestLiveLayersOfAnotherProcessFollowChanges(t *testing.T) {
	data, file := small(t), filepath.Join(t.TempDir(), "blocks")
	shared := expect.Must(os.Create(file))(t)
	defer shared.Close()
	seen := 0
	double := func(line map[string]any) {
		n := int64(line["own_floats"].(float64))
		raw := make([]byte, 4*n)
		_, _ = shared.ReadAt(raw, 0)
		x := make([]float32, n)
		unified.Float32.Floats(x, raw)
		for i := range x {
			x[i] *= 2
		}
		_, _ = shared.WriteAt(unified.FromSlice(x).Bytes(), 4*n)
		seen++
	}
	a := askLive(t, double, data, "--layers", "rows:9", "--name", "double", "--blocks", file)
	before := seen
	row := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	putArray(t, a.file, putArray(t, a.file, 0, []int64{2000}), row)
	report := expect.Must(a.ask(`{"apply":{"features":[{"count":1,"ids_at":0,"rows_at":8}]}}`))(t)
	expect.That(t, report["nodes"] == 2001.0 && seen == before+1, "%v, %d blocks", report, seen-before)
	rows := make([]float32, 2001*9)
	unified.Float32.Floats(rows, a.all(t, 2001, 9))
	expect.Same(t, rows[2000*9:], []float32{2, 4, 6, 8, 10, 12, 14, 16, 18})
	a.end(t)
}

func TestOptionsThatDoNotGoWithLiveAreRefused(t *testing.T) {
	data := small(t)
	for _, more := range []string{"--keep", "--out=x", "--nodes=1", "--plan", "--layer=1", "--layer-dtype=float16",
		"--force", "--note-every=1s", "--json"} {
		name, _, _ := strings.Cut(more, "=")
		fails(t, exitUsage, name+" does not go with --live", "embed", data, "--live", "--changes", "f", more)
	}
	fails(t, exitUsage, "--changes", "embed", data, "--live")
	fails(t, exitUsage, "--journal is for rows that follow changes: add --live", "embed", data, "--journal", "f")
}
