package formats

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// writerEnv makes the test binary write datasets to the directory it names, until it is killed.
const writerEnv = "KHOP_TEST_WRITE_UNTIL_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func writeUntilKilled(dir string) {
	if os.Getpid()%2 == 0 {
		passCache = arrayfile.Direct{Block: 1 << 16} // past the page cache
	}
	err := error(nil)
	for i := uint64(os.Getpid()); err == nil; i++ {
		g, e := graph.FromArrays(randomArrays(&testing.T{}, i%2, 2000, 5))
		fmt.Println("go")
		err = cmp.Or(e, WriteGraph(context.Background(), dir, g, WriterOptions{Force: true}))
	}
	fmt.Println(err)
	os.Exit(3)
}

// A first dataset is there or not, whole; from then on there always is one, the old or the new one, whole, and readers
// see nothing else. KHOP_KILLS is how many writers are killed.
func TestAWriterKilledAtAnyMomentLeavesTheOldDatasetOrTheNewOne(t *testing.T) {
	trials := 20
	if testing.Short() {
		trials = 10
	}
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		trials = n
	}
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	dir := filepath.Join(scratchDir(t), "x.khop")
	graphs := []*graph.Graph{newGraph(t, randomArrays(t, 0, 2000, 5)), newGraph(t, randomArrays(t, 1, 2000, 5))}
	outcomes := map[string]int{}
	reads, end := func() int64 { return 0 }, func() {}
	defer func() { end(); t.Log(reads(), "reads meanwhile") }()
	begin := time.Now()
	expect.OK(t, WriteGraph(context.Background(), dir+".whole", graphs[0], WriterOptions{}))
	whole := time.Since(begin)
	expect.OK(t, os.RemoveAll(dir+".whole"))
	for trial := range trials {
		killWriter(t, dir, time.Duration(r.Int64N(int64(3*whole))))
		err := readWhole(dir, graphs, false)
		switch {
		case err == nil:
			if outcomes["complete"]++; outcomes["complete"] == 1 {
				reads, end = keepReading(t, dir, graphs)
			}
			err := readWhole(dir, graphs, true)
			expect.Ensure(t, err == nil, "trial %d: a dataset was left that is not right: %v", trial, err)
		case outcomes["complete"] > 0:
			t.Fatalf("trial %d: the dataset is lost: %v", trial, err)
		case errors.Is(err, ErrIncomplete):
			outcomes["incomplete"]++
		case errors.Is(err, os.ErrNotExist):
			outcomes["nothing"]++
		default:
			t.Fatalf("trial %d: %v", trial, err)
		}
	}
	t.Log(outcomes)
	expect.OK(t, WriteGraph(context.Background(), dir, graphs[1], WriterOptions{Force: true}))
	requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, randomArrays(t, 1, 2000, 5), WriterOptions{})))
}

// killWriter starts a writer and kills it some time after it has begun.
func killWriter(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "go\n" {
		t.Fatalf("the writer says %q, %v", line, err)
	}
	time.Sleep(after)
	expect.OK(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(lines)
	err := cmd.Wait()
	var exit *exec.ExitError
	expect.Ensure(t, errors.As(err, &exit) && exit.ExitCode() != 3, "the writer ended by itself: %v, %s", err,
		strings.ReplaceAll(string(rest), "go\n", ""))
}

func TestAFullDiskIsAnErrorThatNamesTheSpace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a small disk here: ", err)
	}
	defer func() { expect.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	check := func(name string, err error, says string) {
		t.Helper()
		expect.That(t, errors.Is(err, ErrSpace) && strings.Contains(err.Error(), says) && strings.Contains(err.Error(),
			"free"), "%s: %v", name, err)
		list, _ := os.ReadDir(dir)
		expect.That(t, len(list) == 0, "%s: left behind: %v", name, list)
	}
	big := plainArrays(t)
	big.Schema.Nodes[0].Columns[0].Shape = []int64{1 << 16}
	big.NodeColumns[0]["feature"] = tensor(t, unified.Float32, make([]byte, 5<<18), 5, 1<<16)
	target := filepath.Join(dir, "x.khop")
	g := newGraph(t, big)
	check("known beforehand", WriteGraph(context.Background(), target, g, WriterOptions{}),
		humanize.Comma(graphBytes(g))+" bytes")
	check("known when a column begins", WriteGraph(context.Background(), target, g,
		WriterOptions{ExpectBytes: 1}), "1,376,498 bytes")

	w := expect.Must(Create(target, WriterOptions{}))(t)
	s, err := w.NodeStrings(0, "names", 1<<10)
	for i := 0; err == nil && i < 1<<10; i++ {
		err = s.Write(strings.Repeat("x", 2048))
	}
	if err == nil {
		err = s.Close()
	}
	e := w.Abort()
	expect.That(t, e == nil, "%v", e)
	check("known while writing", err, "bytes")
	expect.Is(t, WriteGraph(context.Background(), target, newGraph(t, plainArrays(t)), WriterOptions{}), nil,
		"a dataset that fits")
	report, err := Check(context.Background(), target, CheckOptions{})
	expect.That(t, err == nil && report.OK(), "a dataset that fits: %+v, %v", report, err)
}

func TestAMountedDatasetIsNotReplaced(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a small disk here: ", err)
	}
	defer func() { expect.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	g := newGraph(t, plainArrays(t))
	expect.OK(t, WriteGraph(context.Background(), dir, g, WriterOptions{})) // it is empty
	err := WriteGraph(context.Background(), dir, g, WriterOptions{Force: true})
	expect.That(t, errors.Is(err, ErrExist) && strings.Contains(err.Error(), "mounted"), "%v", err)
	requireEqualGraphs(t, g, open(t, dir).Graph())
}
