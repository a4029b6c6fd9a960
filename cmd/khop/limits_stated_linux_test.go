//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

// TestWhatIsStatedSufficesInAControlGroup runs commands in groups that leave what they said they would need, expected
// and by night at most, and in one that leaves half, which is refused.
func TestWhatIsStatedSufficesInAControlGroup(t *testing.T) {
	memoryGroup(t, 1<<30) // skips where none can be made
	w := openWorkshop(t)
	data := w.named("sbm")
	bench := func(flags string) []string {
		return append([]string{"bench", data, "--json", "--device", "cpu", "--no-memcpy", "--batches", "6",
			"--warmup", "1", "--seeds", "all"}, strings.Fields(flags)...)
	}
	wide, disk := "--batch-size 5000 --fanouts -1 --workers 4", "--batch-size 3000 --fanouts 9,7 --cache-bytes 300kB"
	for _, c := range []struct{ says, runs []string }{
		{bench("--batch-size 2000 --fanouts 10,5"), bench("--batch-size 2000 --fanouts 10,5")},
		{bench(wide), bench(wide)},
		{bench("--batch-size 3000 --fanouts 8,8 --resident"), bench("--batch-size 3000 --fanouts 8,8 --resident")},
		{append([]string{"plan", data, "--json", "--seeds", "all"}, strings.Fields(disk)...),
			bench(disk + " --residence disk")},
		{[]string{"info", data, "--json", "--deep"}, bench("--batch-size 1024 --fanouts 15,10,5")},
	} {
		said := statementOf(t, c.says)
		expect.That(t, said.Expected > 0 && said.Expected <= said.Largest, "%s: %+v", c.says, said)
		for _, group := range []struct {
			size int64
			code int
		}{{said.Expected, exitDone}, {said.Largest, exitDone}, {said.Expected / 2, exitFailed}} {
			if group.size == said.Largest && said.Expected < said.Largest && !expect.Night() {
				continue // there is more room than where it must do
			}
			size := group.size + machine.Own + 8<<20
			g := memoryGroup(t, size)
			o := g.run(t, w, c.runs...)
			expect.That(t, g.judge(o) == "" && o.code == group.code, "%s in %d bytes of %+v: %s: %s", c.runs, size,
				said, g.judge(o), o)
		}
	}
}

// TestWhatConversionStatesSufficesInAControlGroup runs it in a group that leaves what a dry run says that it will take.
func TestWhatConversionStatesSufficesInAControlGroup(t *testing.T) {
	memoryGroup(t, 1<<30) // skips where none can be made
	w, dir := openWorkshop(t), t.TempDir()
	var text bytes.Buffer
	for i := range 600_000 {
		fmt.Fprintf(&text, "%d %d\n", i*7919%50_000, i*104_729%50_000)
	}
	list := filepath.Join(dir, "edges.txt")
	expect.OK(t, os.WriteFile(list, text.Bytes(), 0o600))
	for _, flags := range []string{"--max-memory 64MB", "--max-memory 42MB", "--max-memory 64MB --symmetrise"} {
		args := append([]string{"convert", list, filepath.Join(dir, "out.khop"), "--json", "--force"},
			strings.Fields(flags)...)
		var said struct {
			Peak int64 `json:"memory_peak"`
		}
		expect.OK(t, json.Unmarshal([]byte(must(t, append(args, "--dry-run")...)), &said))
		size := said.Peak + machine.Own + 8<<20
		g := memoryGroup(t, size)
		o := g.run(t, w, args...)
		expect.That(t, said.Peak > 0 && g.judge(o) == "" && o.code == exitDone, "%s in %d bytes of %+v: %s: %s", args,
			size, said, g.judge(o), o)
	}
}

// TestFilesThatAreTooLongAreRefusedInAControlGroup where they would not fit, each by name.
func TestFilesThatAreTooLongAreRefusedInAControlGroup(t *testing.T) {
	const size = 96 << 20
	g := memoryGroup(t, size) // skips where none can be made
	w, dir := openWorkshop(t), t.TempDir()
	expect.OK(t, os.Chmod(dir, 0o700))
	lines, zeros := filepath.Join(dir, "lines"), filepath.Join(dir, "zeros")
	expect.OK(t, os.WriteFile(lines, bytes.Repeat([]byte("0\n"), 20<<20), 0o600),
		os.WriteFile(zeros, []byte("\x00"), 0o600), os.Truncate(zeros, 1<<30))
	data := w.named("sbm")
	for line, says := range map[string]string{
		"sample D --seeds @" + lines:                                  "are needed here",
		"sample D --sampler cluster --partition " + lines:             "its 20,971,520 lines take",
		"train D --epochs 1 --fanouts 2,2 --checkpoint " + zeros:      "too long",
		"tune D --widths 4 --file " + zeros:                           "too long",
		"serve D --fanouts 2 --socket " + dir + "/s --state " + zeros: "too long",
		"serve D --socket " + dir + "/s --config " + zeros:            "too long",
		"convert " + zeros + " " + dir + "/out --from pyg":            "zeros",
	} {
		args := strings.Fields(line)
		if args[1] == "D" {
			args[1] = data
		}
		o := g.run(t, w, args...)
		expect.That(t, (o.code == exitFailed || o.code == exitUsage) && g.kills() == "" &&
			strings.Contains(o.stderr, says), "%s: %s", line, o)
	}
}

// statement is the memory that a command says that loading takes.
type statement struct{ Expected, Largest int64 }

// statementOf returns what a command states by whichever names it has.
func statementOf(t *testing.T, args []string) statement {
	var out struct {
		Bench    int64 `json:"memory_estimate"`
		BenchAll int64 `json:"memory_largest"`
		Plan     int64 `json:"needs_bytes"`
		PlanAll  int64 `json:"needs_largest_bytes"`
		Info     []struct {
			Batches int64 `json:"batches_expected"`
			All     int64 `json:"batches_bound"`
		} `json:"training_memory"`
	}
	expect.OK(t, json.Unmarshal([]byte(must(t, args...)), &out))
	said := statement{out.Bench + out.Plan, out.BenchAll + out.PlanAll}
	if len(out.Info) > 0 {
		said = statement{out.Info[0].Batches, out.Info[0].All}
	}
	return said
}

// TestAPackedTraceIsMergedInLittleMemory: a file of some kilobytes may hold many events, or one that does not end.
func TestAPackedTraceIsMergedInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	many, long := filepath.Join(dir, "many.gz"), filepath.Join(dir, "long.gz")
	event := `{"name":"batch","ph":"X","pid":1,"tid":1,"ts":1,"dur":1},` + "\n"
	text := "[" + strings.Repeat(event, 300_000) + "{}]"
	expect.OK(t, os.WriteFile(many, expect.Must(gzipped([]byte(text), nil))(t), 0o600),
		os.WriteFile(long, expect.Must(gzipped([]byte(`["`+strings.Repeat("long", 5<<20)+`"]`), nil))(t), 0o600))
	all := filepath.Join(dir, "all.json")
	o := (&workshop{}).run(t, []string{builtProgram(t)}, "trace", "merge", all, many)
	expect.That(t, o.code == exitDone && o.peak < 40<<20, "%d bytes of text: %s", len(text), o)
	_, says, code := khop(t, "trace", "merge", "--force", all, long)
	expect.That(t, code == exitFailed && strings.Contains(says, "long.gz: not a Chrome trace: an event has more than"),
		"%d: %s", code, says)
}
