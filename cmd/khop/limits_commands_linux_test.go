//go:build !race

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/internal/expect"
)

// drawnCommands draw the arguments of every command that reads arrays, or makes them.
var drawnCommands = map[string]func(w *workshop, t *testing.T, r *rand.Rand, dir string) []string{
	"convert": (*workshop).drawConvert,
	"sample": func(w *workshop, _ *testing.T, r *rand.Rand, _ string) []string {
		return append(append(w.drawLoad(r), "--batches", "12"),
			oneOf(r, nil, []string{"--digest"}, []string{"--json"})...)
	},
	"bench": func(w *workshop, _ *testing.T, r *rand.Rand, _ string) []string {
		return append(append(w.drawLoad(r), "--batches", "8", "--warmup", "2"),
			oneOf(r, nil, nil, []string{"--no-memcpy"}, []string{"--no-features"})...)
	},
	"serve": func(w *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return append(append(w.drawLoad(r), "--socket", filepath.Join(dir, "feed", "socket")),
			oneOf(r, nil, nil, []string{"--hold", "2"}, []string{"--edge-pos"})...)
	},
	"plan":  (*workshop).drawPlan,
	"train": (*workshop).drawTrain,
	"tune": func(w *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return []string{oneOf(r, w.datasets...), "--rounds", "1", "--widths", oneOf(r, "4", "16,64", "256", "3000"),
			"--file", filepath.Join(dir, "tune.json"), "--plot", filepath.Join(dir, "tune.svg")}
	},
	"export": func(w *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return []string{oneOf(r, w.datasets...), filepath.Join(dir, "out"), "--to",
			oneOf(r, append(export.Formats, export.Formats[len(export.Formats)-1])...)[0]}
	},
	"info": func(w *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return append([]string{oneOf(r, w.datasets...)},
			oneOf(r, nil, []string{"--deep"}, []string{"--plot", filepath.Join(dir, "degrees.svg")})...)
	},
	"check": func(w *workshop, _ *testing.T, r *rand.Rand, _ string) []string {
		return append([]string{oneOf(r, w.datasets...)},
			oneOf(r, nil, []string{"--deep"}, []string{"--workers", "30"}, []string{"--scrub", "--rate", "1GB"})...)
	},
	"partition": func(w *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return []string{oneOf(r, w.datasets...), "--out", filepath.Join(dir, "parts"), "--parts",
			oneOf(r, "2", "100", "500")}
	},
	"add": func(w *workshop, t *testing.T, r *rand.Rand, dir string) []string {
		copied := filepath.Join(dir, "copy.khop")
		expect.OK(t, os.CopyFS(copied, os.DirFS(w.named("sbm"))))
		return []string{copied, "--column", "more=" + w.write(t, drawnFile{"more.npy", zeroColumn}), "--split",
			"some=" + w.write(t, drawnFile{"some.npy", zeroMask})}
	},
	"stage": func(w *workshop, _ *testing.T, r *rand.Rand, _ string) []string {
		return []string{oneOf(r, w.datasets...)}
	},
	"embed": func(w *workshop, t *testing.T, r *rand.Rand, dir string) []string {
		model := filepath.Join(w.dir, "model")
		if _, err := os.Stat(model); err != nil {
			must(t, "train", w.named("sbm"), "--epochs", "1", "--hidden", "16", "--checkpoint", model)
		}
		return []string{w.named("sbm"), "--checkpoint", model, "--out",
			filepath.Join(dir, oneOf(r, "rows.npy", "rows.parquet", "rows.arrow"))}
	},
	"trace": func(w *workshop, t *testing.T, _ *rand.Rand, dir string) []string {
		return []string{"merge", filepath.Join(dir, "trace.json"), w.write(t, drawnFile{"spans.gz", spans})}
	},
	"report": func(w *workshop, t *testing.T, _ *rand.Rand, dir string) []string {
		run := filepath.Join(dir, "run.json")
		expect.OK(t, os.WriteFile(run, []byte(must(t, "bench", w.named("sbm"), "--json", "--batches", "2",
			"--warmup", "1")), 0o600))
		return []string{filepath.Join(dir, "report.html"), run, run}
	},
	"split": func(w *workshop, t *testing.T, r *rand.Rand, dir string) []string {
		copied := filepath.Join(dir, "copy.khop")
		expect.OK(t, os.CopyFS(copied, os.DirFS(w.named("sbm"))))
		return append([]string{copied, "--names", "a,b,c"}, oneOf(r, nil, []string{"--train-per-class", "20"},
			[]string{"--links", "--undirected"}, []string{"--links", "--disjoint", "0.3"})...)
	},
	"task": func(w *workshop, t *testing.T, _ *rand.Rand, dir string) []string {
		out := filepath.Join(dir, "out.khop")
		must(t, "convert", w.write(t, drawnFile{"numbers.txt", numbers}), out, "--tasks", "2", "--plan")
		var tasks []string
		for _, name := range []string{"read-0", "read-1", "nodes-0", "range-0", "range-1", "commit-0"} {
			tasks = append(tasks, filepath.Join(out+".khop-tasks", "tasks", name+".json"))
		}
		return tasks
	},
	"generate": func(_ *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		args := []string{oneOf(r, "sbm", "rmat", "products", "typed"), filepath.Join(dir, "out.khop"), "--nodes",
			oneOf(r, "100", "30000", "200000"), "--edges", "300000"}
		return append(args, oneOf(r, nil, []string{"--workers", "7"}, []string{"--features", "300"})...)
	},
	"demo": func(_ *workshop, _ *testing.T, r *rand.Rand, dir string) []string {
		return []string{filepath.Join(dir, "demo.khop"), "--nodes", oneOf(r, "500", "20000", "60000")}
	},
	"doctor": func(w *workshop, _ *testing.T, r *rand.Rand, _ string) []string {
		return oneOf(r, nil, []string{oneOf(r, w.datasets...)})
	},
}

// limited are the commands that take --max-memory.
var limited = []string{"convert", "sample", "bench", "serve", "plan", "train", "add", "split"}

// Every command that reads arrays, or makes them, is drawn, so that none forgets the limit.
func TestEveryCommandIsDrawnInControlGroups(t *testing.T) {
	all := reflect.ValueOf(&commands{}).Elem()
	for i := range all.NumField() {
		if all.Type().Field(i).Anonymous { // flags of all commands
			continue
		}
		name, command := strings.ToLower(all.Type().Field(i).Name), all.Field(i).Addr().Interface()
		c, ok := command.(withoutData)
		without := ok && c.withoutData()
		expect.That(t, drawnCommands[name] != nil || without, "khop %s: say in drawnCommands how to draw it", name)
	}
}

// named returns the dataset of a kind.
func (w *workshop) named(kind string) string { return filepath.Join(w.dir, kind+".khop") }

// drawPlan draws an outlook, small caches of it among them.
func (w *workshop) drawPlan(_ *testing.T, r *rand.Rand, dir string) []string {
	args := []string{w.named(oneOf(r, "sbm", "typed")), "--fanouts",
		oneOf(r, "15,10,5", "5,5", "30,30"),
		"--batch-size", oneOf(r, "100", "1024", "5000")}
	args = append(args, oneOf(r, nil, []string{"--cache-bytes", oneOf(r, "4kB", "1MB", "6MB")})...)
	return append(args, oneOf(r, nil, []string{"--shuffle"}, []string{"--plot", filepath.Join(dir, "plan.svg")})...)
}

// drawTrain draws models of all kinds, on the whole graph and in batches.
func (w *workshop) drawTrain(_ *testing.T, r *rand.Rand, dir string) []string {
	args := []string{w.named("sbm"), "--epochs", "1", "--model", oneOf(r, "sage", "gcn", "gin", "gat"), "--hidden",
		oneOf(r, "8", "64", "1000")}
	args = append(args, oneOf(r, nil, []string{"--fanouts", oneOf(r, "5,5", "15,10", "-1,-1"), "--batch-size",
		oneOf(r, "64", "1024", "20000")})...)
	return append(args, oneOf(r, nil, nil, []string{"--row-normalise"}, []string{"--fastest"}, []string{"--explain"},
		[]string{"--backward-budget", "0.3"}, []string{"--checkpoint", filepath.Join(dir, "model")},
		[]string{"--plot", filepath.Join(dir, "curves.svg")})...)
}

// sbmNodes are the nodes of the dataset that commands train on, and that columns are added to.
const sbmNodes = 40_000

// zeroColumn is a column of zeros for that dataset.
func zeroColumn(int) ([]byte, error) {
	return npyZeros("<f8", fmt.Sprintf("(%d, 40)", sbmNodes), sbmNodes*320), nil
}

// zeroMask is a split of that dataset that has no nodes.
func zeroMask(int) ([]byte, error) {
	return npyZeros("|b1", fmt.Sprintf("(%d,)", sbmNodes), sbmNodes), nil
}

// spans is a trace that is packed: much longer than it looks.
func spans(scale int) ([]byte, error) {
	line := `{"name":"batch","ph":"X","pid":1,"tid":1,"ts":1,"dur":1},` + "\n"
	return gzipped([]byte(`{"traceEvents":[`+strings.Repeat(line, 100_000*scale)+`{"name":"end","ph":"X","pid":1,`+
		`"tid":1,"ts":1,"dur":1}]}`), nil)
}
