//go:build !race

package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/memuse"
)

// These tests draw command lines and limits of memory, and run the program itself: what the system says that it takes
// counts. KHOP_DRAWS says how many (make fault-test), KHOP_DRAW_SEED which; KHOP names a program that is built already.

// draws returns how many commands to draw, few unless KHOP_DRAWS says otherwise, and the source of what is drawn.
func draws(t *testing.T, few int) (int, *rand.Rand) {
	t.Helper()
	seed := uint64(1)
	if os.Getenv("KHOP_DRAWS") != "" {
		seed = uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("KHOP_DRAW_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	n := expect.Draws(t, few)
	t.Logf("%d draws; KHOP_DRAW_SEED=%d repeats them", n, seed)
	return n, rand.New(rand.NewPCG(seed, 0))
}

// workshop is what drawn commands work on.
type workshop struct {
	program, dir string
	scale        int // of sources: 1 or 5
	datasets     []string
	sources      []drawnFile
}

// drawnFile is a file to convert, which is written when it is first drawn: to pack all of them takes much longer than
// to run the commands.
type drawnFile struct {
	name string
	text func(scale int) ([]byte, error)
}

// builtProgram returns the program itself, which it builds where KHOP names none.
func builtProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv("KHOP") != "" {
		return program(t)
	}
	path := filepath.Join(t.TempDir(), "khop")
	expect.OK(t, os.WriteFile(path, expect.Must(theProgram())(t), 0o700))
	return path
}

// theProgram is what go build makes, once for all tests.
var theProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "khop-built-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "khop")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(path)
})

// openWorkshop makes what drawn commands work on.
func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{program: builtProgram(t), dir: t.TempDir(), scale: 1, sources: drawnFiles()}
	datasets := []string{"typed --nodes 30000 --edges 300000",
		fmt.Sprintf("sbm --nodes %d --edges 800000 --features 64", sbmNodes)}
	if os.Getenv("KHOP_DRAWS") != "" {
		w.scale = 5
		datasets = append(datasets, "rmat --nodes 65536 --edges 900000")
	}
	for _, args := range datasets {
		kind, _, _ := strings.Cut(args, " ")
		path := filepath.Join(w.dir, kind+".khop")
		generated(t, path, args)
		w.datasets = append(w.datasets, path)
	}
	return w
}

// write writes a source, unless it is there, and returns where.
func (w *workshop) write(t *testing.T, s drawnFile) string {
	t.Helper()
	path := filepath.Join(w.dir, s.name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	text, err := s.text(w.scale)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	expect.OK(t, err)
	return path
}

// drawnFiles are sound and hostile files.
func drawnFiles() []drawnFile {
	list := []drawnFile{{"numbers.txt", numbers}, {"names.csv", nodeNames},
		{"numbers.gz", func(scale int) ([]byte, error) { return gzipped(numbers(scale)) }},
		{"long.gz", func(scale int) ([]byte, error) { return gzipped(longNames(scale)) }},
		{"wide.zst", func(scale int) ([]byte, error) {
			wide, err := zstd.NewWriter(nil, zstd.WithWindowSize(256<<20), zstd.WithEncoderLevel(zstd.SpeedFastest))
			if err != nil {
				return nil, err
			}
			text, err := numbers(scale)
			return wide.EncodeAll(bytes.Repeat(text, scale), nil), err
		}}}
	for _, a := range []struct {
		name   string
		arrays func(n int) []zeros
	}{
		{"across", func(n int) []zeros { return []zeros{{"edges", "|i1", fmt.Sprintf("(2, %d)", n), 2 * n}} }},
		{"csr", func(n int) []zeros {
			return []zeros{{"indptr", "|i1", fmt.Sprintf("(%d,)", n), n}, {"indices", "|i1", "(0,)", 0}}
		}},
		{"edges", func(n int) []zeros {
			return []zeros{{"edges", "|i1", fmt.Sprintf("(%d, 2)", n), 2 * n}, {"node_labels", "|i1", "(100,)", 100}}
		}},
		{"few", func(n int) []zeros {
			return []zeros{{"edges", "|i1", fmt.Sprintf("(%d, 2)", n/7), n / 7 * 2},
				{"node_labels", "<i4", "(100,)", 400}}
		}},
		{"labels", func(n int) []zeros {
			return []zeros{{"edges", "|i1", "(1, 2)", 2}, {"node_labels", "|i1", fmt.Sprintf("(%d,)", n), n}}
		}},
		{"masks", func(n int) []zeros {
			return []zeros{{"edges", "|i1", "(1, 2)", 2}, {"node_labels", "|i1", fmt.Sprintf("(%d,)", n/10), n / 10},
				{"train_masks", "|b1", fmt.Sprintf("(10, %d)", n/10), n}}
		}},
		{"names", func(n int) []zeros {
			return []zeros{{"indptr", "|i1", fmt.Sprintf("(%d,)", n/20+1), n/20 + 1}, {"indices", "|i1", "(0,)", 0},
				{"node_names", "<U20", fmt.Sprintf("(%d,)", n/20), n * 4}}
		}},
		{"nothing", func(int) []zeros {
			return []zeros{{"edges", "|i1", "(1, 2)", 2}, {"node_features", "<f4", "(300000000, 0)", 0}}
		}},
		{"rows", func(n int) []zeros {
			return []zeros{{"edges", "|i1", "(9, 2)", 18},
				{"node_features", "<f8", fmt.Sprintf("(100, %d)", n/200), n / 200 * 800}}
		}},
	} {
		list = append(list, drawnFile{a.name + ".npz", func(scale int) ([]byte, error) {
			return archive(a.arrays(4_000_000 * scale))
		}})
	}
	return list
}

// numbers is an edge list of integers with weights.
func numbers(scale int) ([]byte, error) {
	r := rand.New(rand.NewPCG(1, 2))
	var b []byte
	for range 80_000 * scale {
		b = fmt.Appendf(b, "%d %d %d\n", r.IntN(50_000), r.IntN(50_000), r.IntN(9))
	}
	return b, nil
}

// nodeNames is an edge list of many names.
func nodeNames(scale int) ([]byte, error) {
	r := rand.New(rand.NewPCG(1, 3))
	var b []byte
	for i := range 60_000 * scale {
		b = fmt.Appendf(b, "node-%d,node-%d\n", i, r.IntN(1+i))
	}
	return b, nil
}

// longNames is an edge list of few, very long names.
func longNames(scale int) ([]byte, error) {
	text := strings.Repeat("x", 300_000)
	var b []byte
	for i := range 60 * scale {
		b = fmt.Appendf(b, "%d%s %d%s\n", i, text, i+1, text)
	}
	return b, nil
}

func gzipped(text []byte, err error) ([]byte, error) {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = z.Write(text)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// zeros is an array of zero bytes.
type zeros struct {
	name, descr, shape string
	bytes              int
}

// archive is a packed NumPy archive.
func archive(arrays []zeros) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	for _, a := range arrays {
		f, err := z.Create(a.name + ".npy")
		if err != nil {
			return nil, err
		}
		_, _ = f.Write(npyZeros(a.descr, a.shape, a.bytes))
	}
	err := z.Close()
	return out.Bytes(), err
}

// npyZeros is an array of zero bytes as a file.
func npyZeros(descr, shape string, bytes int) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	text := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(text, header...), make([]byte, bytes)...)
}

func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// draw draws the line of a command, without a limit, that writes what it writes to a folder.
func (w *workshop) draw(t *testing.T, r *rand.Rand, dir, command string) []string {
	t.Helper()
	return append([]string{command}, drawnCommands[command](w, t, r, dir)...)
}

// drawConvert draws a conversion.
func (w *workshop) drawConvert(t *testing.T, r *rand.Rand, dir string) []string {
	args := []string{w.write(t, oneOf(r, w.sources...)), filepath.Join(dir, "out.khop")}
	args = append(args, oneOf(r, nil, nil, []string{"--symmetrise"}, []string{"--directed"})...)
	if strings.HasSuffix(args[0], "numbers.txt") {
		args = append(args, oneOf(r, nil, []string{"--ids", "names"}, []string{"--columns", "src,dst,weight"})...)
	}
	return args
}

// drawLoad draws what is loaded.
func (w *workshop) drawLoad(r *rand.Rand) []string {
	args := []string{oneOf(r, w.datasets...), "--device", "cpu", "--fanouts",
		oneOf(r, "15,10,5", "5,5", "-1", "-1,-1", "400000000", "30,30,30", "700,3", "0,4"),
		"--batch-size", oneOf(r, "1", "100", "1024", "5000", "40000"), "--seeds", "all",
		"--workers", oneOf(r, "1", "2", "7"), "--prefetch", oneOf(r, "1", "4", "30")}
	args = append(args, oneOf(r, nil, nil, []string{"--resident"}, []string{"--frontier", "new"},
		[]string{"--shuffle"}, []string{"--residence", "disk", "--cache-bytes", oneOf(r, "4kB", "1MB", "6MB"),
			"--lookahead", oneOf(r, "1", "20", "500")})...)
	if r.IntN(6) == 0 && args[4] != "400000000" {
		args = append(args, "--replace")
	}
	return args
}

// outcome is how a command ended.
type outcome struct {
	code   int
	peak   int64 // bytes of anonymous and shared memory
	stderr string
	group  string // what its control group had when it was fullest
}

func (o outcome) String() string {
	return fmt.Sprintf("status %d, a peak of %d bytes, %s: %s", o.code, o.peak, o.group, o.stderr)
}

// run runs a command, feeds on what it serves, and watches what memory it takes. prefix are the program and what
// precedes its arguments.
func (w *workshop) run(t *testing.T, prefix []string, args ...string) outcome {
	t.Helper()
	line := append(append([]string{}, prefix...), args...)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready := make(chan struct{})
	if args[0] == "serve" {
		cmd.Stdout = &announced{ready: ready}
	}
	expect.OK(t, cmd.Start())
	late := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	end := make(chan struct{})
	var fed sync.WaitGroup
	fed.Go(func() {
		select {
		case <-ready:
			consume(t, args)
			_ = cmd.Process.Signal(syscall.SIGINT)
		case <-end:
		}
	})
	o := outcome{}
	var watched sync.WaitGroup
	watched.Go(func() {
		o.peak = watch(cmd.Process.Pid, end)
	})
	_ = cmd.Wait()
	close(end)
	watched.Wait()
	fed.Wait()
	o.code, o.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	return o
}

// announced closes ready when a server says that consumers can connect.
type announced struct {
	ready chan struct{}
	once  sync.Once
}

func (a *announced) Write(b []byte) (int, error) {
	a.once.Do(func() { close(a.ready) })
	return len(b), nil
}

// consume takes some batches from a server, which may end meanwhile.
func consume(t *testing.T, args []string) {
	for i, a := range args {
		if a != "--socket" {
			continue
		}
		c, err := consumer.Dial(t.Context(), args[i+1], consumer.Options{Timeout: time.Minute})
		if err != nil {
			return
		}
		defer c.Close()
		n := 0
		for _, err := range c.Epoch(t.Context(), 0) {
			if n++; err != nil || n == 12 {
				return
			}
		}
	}
}

// watch returns the most anonymous and shared memory that a process has until end.
func watch(pid int, end chan struct{}) (peak int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return peak
		case <-tick.C:
		}
		use, _ := memuse.Of(pid)
		peak = max(peak, use.Anonymous)
	}
}

// judge says what is wrong with an outcome; empty for nothing.
func (o *outcome) judge(limit int64) string {
	switch {
	case o.peak > limit+limit/10:
		return "took more than the limit and a tenth"
	case o.code != exitDone && o.code != exitFailed && o.code != exitInterrupted:
		return "ended otherwise than by success or a refusal"
	case o.code == exitFailed && (!strings.HasPrefix(o.lastLine(), "khop: ") ||
		strings.Contains(o.stderr, "internal error")):
		return "gives no reason"
	case o.code == exitFailed && strings.Contains(o.stderr, "limit reached") && !strings.Contains(o.stderr, "allow"):
		return "does not say what to do"
	}
	return ""
}

func (o *outcome) lastLine() string {
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	return lines[len(lines)-1]
}

// drawSize draws a size between two, small ones as often as large ones.
func drawSize(r *rand.Rand, least, most float64) int64 {
	return int64(least * math.Pow(most/least, r.Float64()))
}

// TestDrawnCommandsKeepTheirLimit runs commands under limits of memory.
func TestDrawnCommandsKeepTheirLimit(t *testing.T) {
	n, r := draws(t, expect.DayOrNight(4, 16))
	w := openWorkshop(t)
	done, most := 0, 0.0
	for i := range n {
		dir := t.TempDir()
		command := oneOf(r, limited...)
		args, limit := w.draw(t, r, dir, command), drawSize(r, 20e6, 400e6)
		args = append(args, "--max-memory", fmt.Sprint(limit))
		o := w.run(t, []string{w.program}, args...)
		if what := o.judge(limit); what != "" {
			t.Errorf("draw %d: khop %s: %s: status %d, a peak of %d bytes: %s", i, strings.Join(args, " "), what,
				o.code, o.peak, o.stderr)
		}
		if o.code != exitFailed {
			done++
			most = max(most, float64(o.peak)/float64(limit))
		}
		_ = os.RemoveAll(dir)
	}
	t.Logf("%d of %d were done, the others refused; at most %.0f %% of a limit were taken", done, n, 100*most)
	expect.That(t, done >= n/8, "only %d of %d were done", done, n)
}

// TestDrawnControlGroupsKillNothing runs all commands in control groups of drawn sizes, most of them without a limit
// of their own.
func TestDrawnControlGroupsKillNothing(t *testing.T) {
	n, r := draws(t, expect.DayOrNight(4, 16))
	memoryGroup(t, 1<<30) // skips where none can be made
	w := openWorkshop(t)
	done := 0
	for i := range n {
		dir := t.TempDir()
		command := oneOf(r, slices.Sorted(maps.Keys(drawnCommands))...)
		args, size := w.draw(t, r, dir, command), drawSize(r, 24<<20, 512<<20)
		if slices.Contains(limited, command) && r.IntN(4) == 0 {
			args = append(args, "--max-memory", fmt.Sprint(drawSize(r, 40e6, 4e9)))
		}
		g := memoryGroup(t, size)
		begin := time.Now()
		o := g.run(t, w, args...)
		if took := time.Since(begin); took > 10*time.Second {
			t.Logf("draw %d: %v: khop %s in a group of %d bytes: status %d", i, took, strings.Join(args, " "), size,
				o.code)
		}
		if what := g.judge(o); what != "" {
			t.Errorf("draw %d: khop %s in a group of %d bytes: %s: %s", i, strings.Join(args, " "), size, what, o)
		}
		if o.code == exitDone || o.code == exitInterrupted {
			done++
		}
		_ = os.RemoveAll(dir)
	}
	t.Logf("%d of %d were done, the others refused", done, n)
	expect.That(t, done >= n/8, "only %d of %d were done", done, n)
}

// TestAQuotaOfProcessorTimeBoundsTheWorkers runs the program in a control group with one processor's time.
func TestAQuotaOfProcessorTimeBoundsTheWorkers(t *testing.T) {
	dir, files := "/sys/fs/cgroup/cpu/khop-test", map[string]string{"cpu.cfs_quota_us": "100000"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, files = "/sys/fs/cgroup/khop-test-cpu", map[string]string{"cpu.max": "100000 100000"}
	}
	dir += fmt.Sprint(os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control group of processor time can be made: %v", err)
	}
	defer os.Remove(dir)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Skipf("processor time of a control group cannot be limited: %v", err)
		}
	}
	path := builtProgram(t)
	enter := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec \"$0\" doctor --json", dir)
	out := expect.Must(exec.Command("/bin/sh", "-c", enter, path).Output())(t)
	for _, want := range []string{`"cpu_quota": 1`, `"workers": 1`} {
		expect.That(t, strings.Contains(string(out), want), "%s is missing from %s", want, out)
	}
}
