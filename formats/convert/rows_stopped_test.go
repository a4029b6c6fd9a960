package convert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// countdown is a context that is cancelled after it has been asked this number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRowsThatAreStoppedAtAnyMomentLeaveTheOldDatasetOrTheNewOne: by Ctrl-C, which cancels the context, at each place
// that looks at it.
func TestRowsThatAreStoppedAtAnyMomentLeaveTheOldDatasetOrTheNewOne(t *testing.T) {
	data := shop(t, Options{})
	before := expect.Must(os.ReadFile(filepath.Join(data, "dataset.json")))(t)
	rows := rowsOf(t, "users: user,age,plan/cid,1,free", "visits: visit,user,pages/2,cid,1")
	for n := 0; ; n++ {
		ctx := &countdown{context.Background(), n}
		_, err := Add(ctx, data, rows)
		if err == nil {
			expect.That(t, n > 5, "the context was asked %d times", n)
			return
		}
		expect.Is(t, err, context.Canceled, fmt.Sprint("stopped after ", n))
		unchanged(t, data, before)
	}
}

// rowsVictim makes this test add rows to a dataset, in a process that is killed.
const rowsVictim = "KHOP_TEST_ROWS_VICTIM"

// TestRowsWhoseWriterIsKilledLeaveTheOldDatasetOrTheNewOne at drawn moments. KHOP_KILLS is how many are killed.
func TestRowsWhoseWriterIsKilledLeaveTheOldDatasetOrTheNewOne(t *testing.T) {
	if dir := os.Getenv(rowsVictim); dir != "" {
		o := AddOptions{Rows: []Addition{{Name: "users", Path: filepath.Join(dir, "more.csv")}}}
		expect.Must(Add(context.Background(), filepath.Join(dir, "data"), o))(t)
		return
	}
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		kills = n
	}
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	source, more := shopFolder(t), "user,age,plan\n"
	for i := range 3000 {
		more += fmt.Sprintf("u%d,%d,%s\n", i, i, []string{"free", "paid", "gold"}[i%3])
	}
	var whole time.Duration
	counts := map[int64]int{}
	for i := range kills + 1 {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		expect.Must(Run(context.Background(), source, data, Options{}))(t)
		expect.OK(t, os.WriteFile(filepath.Join(dir, "more.csv"), []byte(more), 0o600))
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), rowsVictim+"="+dir, "GORACE=atexit_sleep_ms=0")
		begin := time.Now()
		expect.OK(t, cmd.Start())
		after := time.Minute // the first is not killed
		if i > 0 {
			after = time.Duration(r.Int64N(int64(whole)))
		}
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		whole = max(whole, time.Since(begin))
		report, err := formats.Check(context.Background(), data, formats.CheckOptions{Workers: 1})
		expect.Ensure(t, err == nil && report.OK(), "kill %d: %v, %v", i, err, report)
		ds := expect.Must(formats.Open(data))(t)
		n := ds.Graph().Schema().Nodes[0].Count
		expect.OK(t, ds.Close())
		expect.That(t, n == 2 || n == 3002, "kill %d: %d users", i, n)
		counts[n]++
		tidies := rowsOf(t, "users: user,age,plan/next,1,free")
		expect.Must(Add(context.Background(), data, tidies))(t)
		left := expect.Must(filepath.Glob(data + "?*"))(t)
		expect.That(t, len(left) == 0, "kill %d: left behind: %s", i, strings.Join(left, ", "))
	}
	t.Log("datasets by their users:", counts, "in", whole)
}
