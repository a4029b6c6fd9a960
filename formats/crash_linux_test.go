package formats

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/graph"
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
	a := randomArrays(&testing.T{}, 1, 2000, 5)
	g, err := graph.FromArrays(a)
	for force := false; err == nil; force = true {
		fmt.Println("go")
		err = WriteGraph(context.Background(), dir, g, WriterOptions{Force: force})
		if !force && errors.Is(err, ErrExist) { // what was left is complete
			err = WriteGraph(context.Background(), dir, g, WriterOptions{Force: true})
		}
	}
	fmt.Println(err)
	os.Exit(3)
}

func TestAWriterKilledAtAnyMomentLeavesNoDatasetOrACompleteOne(t *testing.T) {
	trials := 100
	if testing.Short() {
		trials = 10
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(scratchDir(t), "x.khop")
	want := newGraph(t, randomArrays(t, 1, 2000, 5))
	outcomes := map[string]int{}
	for trial := range trials {
		killWriter(t, dir, r)
		d, err := Open(dir)
		switch {
		case err == nil:
			outcomes["complete"]++
			requireEqualGraphs(t, want, d.Graph())
			d.Close()
			report, err := Check(context.Background(), dir, CheckOptions{Workers: 1})
			if err != nil || !report.OK() {
				t.Fatalf("trial %d: a dataset was left that is not right: %+v, %v", trial, report, err)
			}
		case errors.Is(err, ErrIncomplete):
			outcomes["incomplete"]++
		case errors.Is(err, os.ErrNotExist):
			outcomes["nothing"]++
		default:
			t.Fatalf("trial %d: %v", trial, err)
		}
	}
	t.Log(outcomes)
	if err := WriteGraph(context.Background(), dir, want, WriterOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	requireEqualNames(t, dir, write(t, randomArrays(t, 1, 2000, 5), WriterOptions{}))
}

// killWriter starts a writer and kills it some time after it has begun.
func killWriter(t *testing.T, dir string, r *rand.Rand) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "go\n" {
		t.Fatalf("the writer says %q, %v", line, err)
	}
	time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
	must(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(lines)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == 3 {
		t.Fatalf("the writer ended by itself: %v, %s", err, strings.ReplaceAll(string(rest), "go\n", ""))
	}
}

func TestAFullDiskIsAnErrorThatNamesTheSpace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a small disk here: ", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	check := func(name string, err error, says string) {
		t.Helper()
		if !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "free") {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := os.ReadDir(dir); len(list) > 0 {
			t.Errorf("%s: left behind: %v", name, list)
		}
	}
	big := plainArrays(t)
	big.Schema.Nodes[0].Columns[0].Shape = []int64{1 << 16}
	big.NodeColumns[0]["feature"] = tensor(t, unified.Float32, make([]byte, 5<<18), 5, 1<<16)
	target := filepath.Join(dir, "x.khop")
	check("known beforehand", WriteGraph(context.Background(), target, newGraph(t, big), WriterOptions{}), "1,")
	check("known when a column begins", WriteGraph(context.Background(), target, newGraph(t, big),
		WriterOptions{ExpectBytes: 1}), "1,376,498 bytes")

	w, err := Create(target, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.NodeStrings(0, "names", 1<<10)
	for i := 0; err == nil && i < 1<<10; i++ {
		err = s.Write(strings.Repeat("x", 2048))
	}
	if err == nil {
		err = s.Close()
	}
	if e := w.Abort(); e != nil {
		t.Error(e)
	}
	check("known while writing", err, "bytes")
	if err := WriteGraph(context.Background(), target, newGraph(t, plainArrays(t)), WriterOptions{}); err != nil {
		t.Errorf("a dataset that fits: %v", err)
	}
	if report, err := Check(context.Background(), target, CheckOptions{}); err != nil || !report.OK() {
		t.Errorf("a dataset that fits: %+v, %v", report, err)
	}
}
