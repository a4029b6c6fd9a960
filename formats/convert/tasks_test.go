package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/underway"
)

// inTasks converts in tasks for n processes, one after the other.
func inTasks(ctx context.Context, src, dst string, n int, opt Options) (res *Result, err error) {
	stages, err := PlanTasks(ctx, src, dst, n, opt)
	if err != nil {
		return nil, err
	}
	for _, stage := range stages {
		for _, task := range stage {
			if res, err = RunTask(ctx, task, opt); err != nil {
				return nil, err
			}
		}
	}
	return res, CleanTasks(ctx, dst)
}

// tasksMake converts in tasks, and expects the dataset that converting at once made.
func tasksMake(t *testing.T, whole *formats.Dataset, src string, n int, opt Options) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "tasks")
	_, err := inTasks(t.Context(), src, dst, n, opt)
	expect.Ensure(t, err == nil, "%d tasks of %s, %+v: %v", n, src, opt, err)
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, got.ID() == whole.ID(), "%d tasks of %s, %+v, make\n%s\nnot\n%s", n, src, opt, spell(t, got),
		spell(t, whole))
	expect.OK(t, got.Close())
	_, err = os.Stat(workOf(dst))
	expect.That(t, errors.Is(err, os.ErrNotExist), "tasks leave a folder: %v", err)
}

// TestTasksMakeWhatConvertingAtOnceWrites, of several types, with columns, splits and names.
func TestTasksMakeWhatConvertingAtOnceWrites(t *testing.T) {
	typed := newLibrary(5).write(t)
	names := write(t, "edges.csv", "src,dst,weight\nada,bob,1\ncal,bob,2\nbob,dan,3\neve,cal,4\nada,ada,5\nada,bob,6\n")
	numbers := write(t, "numbers.txt", "\xef\xbb\xbf# a comment\r\n0 1 5\r\n3 1 6\r1 1 7\n7 2 5.5\n0 1 4\n1 0 1\n")
	words := write(t, "words.csv", "a,b,time,note\n0,1,5,6\n1,2,5,7\n2,0,6,x\n0,2,9.25,1\n")
	for i, c := range []struct {
		src string
		opt Options
	}{{typed, Options{}}, {names, Options{Direction: Symmetrise, Loops: AddLoops}}, {names, Options{Merge: MergeSum}},
		{names, Options{Direction: Symmetrise}}, {names, Options{Reorder: ByDegree}}, {numbers, Options{}},
		{numbers, Options{Columns: []string{"src", "dst", "weight"}, Direction: Symmetrise, Reorder: ByDegree}},
		{numbers, Options{Columns: []string{"src:user", "dst:item", "x"}, Keep: []string{"x"}}},
		{names, Options{Columns: []string{"src:user", "dst:item", "x"}}},
		{words, Options{}}, {words, Options{ByTime: true, TimesIn: "ms", Loops: DropLoops}},
		{numbers, Options{Strict: true, Columns: []string{"src", "dst", "x"}, IDs: "numbers"}}} {
		_, whole := convert(t, c.src, c.opt)
		for _, n := range []int{1 + i%2, 5, 16}[:2+i/11] {
			tasksMake(t, whole, c.src, n, c.opt)
		}
	}
}

// TestATaskThatPanickedIsNotDone: a mapped source that becomes shorter ends a task like that, before there is an error.
func TestATaskThatPanickedIsNotDone(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n2 0\n3 0\n")
	_, whole := convert(t, src, Options{})
	dst := filepath.Join(t.TempDir(), "tasks")
	stages := expect.Must(PlanTasks(t.Context(), src, dst, 2, Options{}))(t)
	panics := 0
	for _, stage := range stages {
		for _, task := range stage {
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				_, _ = RunTask(t.Context(), task, Options{Progress: func(string, int64, int64) { panic("a fault") }})
			}()
			_, err := RunTask(t.Context(), task, Options{})
			expect.Ensure(t, err == nil, "%s after a panic: %v", task, err)
		}
	}
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, panics > 0 && got.ID() == whole.ID(), "after %d panics: %s, not %s", panics, got.ID(), whole.ID())
	expect.OK(t, got.Close())
}

// A task that makes the dataset, and is started again while it does, waits for the other and returns as that does; it
// makes the dataset where the other one dies.
func TestATaskThatIsStartedTwiceMakesTheDatasetOnce(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n2 0\n3 0\n")
	for _, opt := range []Options{{}, {Force: true}} {
		dst := filepath.Join(t.TempDir(), "tasks")
		stages := expect.Must(PlanTasks(t.Context(), src, dst, 1, opt))(t)
		tasks := slices.Concat(stages...)
		last := tasks[len(tasks)-1]
		for _, task := range tasks[:len(tasks)-1] {
			_, err := RunTask(t.Context(), task, opt)
			expect.OK(t, err)
		}
		dies := expect.Must(formats.Create(dst, formats.WriterOptions{}))(t)
		const twice = 4
		ended := make(chan error, twice)
		for range twice {
			go func() {
				_, err := RunTask(t.Context(), last, opt)
				ended <- err
			}()
		}
		for len(underway.Look().Waits) < twice {
			expect.Ensure(t, len(ended) == 0, "one did not wait")
			runtime.Gosched()
		}
		expect.OK(t, dies.Abort())
		for range twice {
			expect.OK(t, <-ended)
		}
		ds := expect.Must(formats.Open(dst))(t)
		expect.That(t, ds.Manifest().Generation == 1, "the dataset was made %d times", ds.Manifest().Generation)
		expect.OK(t, ds.Close(), CleanTasks(t.Context(), dst))
	}
}
