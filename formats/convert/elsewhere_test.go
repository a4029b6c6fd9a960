package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

func TestSourcesAndTargetsElsewhereMakeTheSameDataset(t *testing.T) {
	s := stores.New(t)
	t.Setenv("KHOP_CACHE_DIR", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	csv := "src,dst,weight\nada,bob,1\ncal,bob,2\nbob,ada,3\n"
	folder := files(t, map[string]string{"e.csv": csv})
	here := filepath.Join(t.TempDir(), "here.khop")
	_, err := Run(context.Background(), filepath.Join(folder, "e.csv"), here, Options{})
	expect.OK(t, err)
	want := open(t, here)
	from := s.PutFolder(t, "bucket", "raw", folder)
	for _, src := range []string{from, from + "/e.csv", s.URL + "/bucket/raw/e.csv", folder} {
		dst := "s3://bucket/made/x.khop"
		res, err := Run(context.Background(), src, dst, Options{Force: true})
		expect.Ensure(t, err == nil, "%s: %v", src, err)
		got := expect.Must(remote.Open(t.Context(), dst, remote.Options{}))(t)
		expect.That(t, got.ID() == want.ID() && res.Edges == 3, "%s: another dataset", src)
		from := got.Manifest().Provenance["source"]
		expect.That(t, from == filepath.Base(src), "from %q", from)
		expect.OK(t, got.Close())
	}
	_, err = Run(context.Background(), folder, "s3://bucket/made/x.khop", Options{})
	expect.That(t, errors.Is(err, formats.ErrExist), "it is there: %v", err)
	left := expect.Must(os.ReadDir(os.Getenv("TMPDIR")))(t)
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

func TestATargetElsewhereIsWholeOrNotThere(t *testing.T) {
	s := stores.New(t)
	t.Setenv("KHOP_CACHE_DIR", t.TempDir())
	src := write(t, "e.csv", "src,dst,weight\n0,1,1\n1,2,2\n")
	s.Fail(func(_ int, r *http.Request) stores.Fault {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "dataset.json") {
			return stores.Refuses
		}
		return stores.None
	})
	_, err := Run(context.Background(), src, "s3://bucket/x.khop", Options{})
	silent := err != nil && !strings.Contains(err.Error(), stores.Secret)
	expect.That(t, silent && len(s.Names()) == 0, "%v, %q", err, s.Names())
}

func TestColumnsAreAddedToADatasetElsewhere(t *testing.T) {
	s := stores.New(t)
	t.Setenv("KHOP_CACHE_DIR", t.TempDir())
	dst := "s3://bucket/x.khop"
	_, err := Run(context.Background(), write(t, "e.csv", "src,dst\n0,1\n1,2\n"), dst, Options{})
	expect.OK(t, err)
	before := expect.Must(remote.Open(t.Context(), dst, remote.Options{}))(t)
	defer before.Close()
	labels := npyFile(t, []int64{3, 1, 2})
	s.Fail(nil)
	_, err = Add(context.Background(), dst, AddOptions{Columns: []Addition{{Name: "label", Path: labels}}})
	expect.OK(t, err)
	asked, _ := s.Requests()
	for _, r := range asked {
		expect.That(t, !strings.HasPrefix(r, "DELETE") && !strings.Contains(r, "PUT /bucket/x.khop/graph"), "%s", r)
	}
	after := expect.Must(remote.Open(t.Context(), dst, remote.Options{}))(t)
	defer after.Close()
	_, has := after.Graph().NodeColumn(0, "label")
	expect.That(t, has && after.Manifest().Generation == 2, "generation %d", after.Manifest().Generation)
}

// TestSourcesAndDatasetsAreKeptWhereOptionsSay: by a conversion, its tasks, and what is added.
func TestSourcesAndDatasetsAreKeptWhereOptionsSay(t *testing.T) {
	s := stores.New(t)
	other := t.TempDir()
	t.Setenv("KHOP_CACHE_DIR", other)
	src := s.PutFolder(t, "bucket", "raw", filepath.Dir(write(t, "e.csv", "src,dst\n0,1\n1,2\n"))) + "/e.csv"
	labels := npyFile(t, []int64{3, 1, 2})
	for name, do := range map[string]func(e remote.Options) error{
		"convert": func(e remote.Options) error {
			return expect.Err(Run(t.Context(), src, "s3://bucket/x.khop", Options{Remote: e, Force: true}))
		},
		"tasks": func(e remote.Options) error {
			opt := Options{Remote: e, Force: true}
			stages, err := PlanTasks(t.Context(), src, "s3://bucket/y.khop", 2, opt)
			if err != nil {
				return err
			}
			for _, task := range slices.Concat(stages...) {
				if _, err := RunTask(t.Context(), task, opt); err != nil {
					return err
				}
			}
			return nil
		},
		"add": func(e remote.Options) error {
			expect.Must(Run(t.Context(), write(t, "e.csv", "src,dst\n0,1\n1,2\n"), "s3://bucket/z.khop", Options{
				Force: true}))(t)
			return expect.Err(Add(t.Context(), "s3://bucket/z.khop", AddOptions{Remote: e,
				Columns: []Addition{{Name: "label", Path: labels}}}))
		},
	} {
		dir := t.TempDir()
		expect.OK(t, do(remote.Options{CacheDir: dir}))
		here, there := expect.Must(os.ReadDir(dir))(t), expect.Must(os.ReadDir(other))(t)
		expect.That(t, len(here) > 0 && len(there) == 0, "%s: kept %v, and elsewhere %v", name, here, there)
		err := do(remote.Options{CacheDir: t.TempDir(), CacheSize: 1})
		expect.That(t, err != nil && strings.Contains(err.Error(), "no room"), "%s, of 1 byte: %v", name, err)
	}
}

// TestTasksGoThroughAStore, whose source, target and working folder lie there; two machines share nothing else.
func TestTasksGoThroughAStore(t *testing.T) {
	s := stores.New(t)
	t.Setenv("TMPDIR", t.TempDir())
	src := write(t, "edges.csv", "src,dst,weight\nada,bob,1\ncal,bob,2\nbob,dan,3\neve,cal,4\nada,ada,5\nada,bob,6\n")
	for _, opt := range []Options{{}, {Direction: Symmetrise, Reorder: ByDegree}} {
		_, whole := convert(t, src, opt)
		from := s.PutFolder(t, "bucket", "raw", filepath.Dir(src)) + "/edges.csv"
		dst := "s3://bucket/made/x.khop"
		stages := expect.Must(PlanTasks(t.Context(), from, dst, 3, opt))(t)
		_, err := PlanTasks(t.Context(), from, dst, 3, opt)
		expect.That(t, errors.Is(err, formats.ErrExist), "planned twice: %v", err)
		for _, stage := range stages {
			for _, task := range stage {
				t.Setenv("KHOP_CACHE_DIR", t.TempDir()) // each on a machine of its own
				for range 2 {
					_, err := RunTask(t.Context(), task, Options{})
					expect.Ensure(t, err == nil, "%s: %v", task, err)
				}
			}
		}
		got := expect.Must(remote.Open(t.Context(), dst, remote.Options{}))(t)
		expect.That(t, got.ID() == whole.ID(), "%+v: another dataset", opt)
		s.Put("bucket/made/x.khop.khop-tasks/data/half", []byte("half"))
		expect.OK(t, got.Close(), CleanTasks(t.Context(), dst))
		for _, name := range s.Names() {
			ours := strings.HasPrefix(name, "bucket/made/x.khop/") || strings.HasPrefix(name, "bucket/raw/")
			expect.That(t, ours, "left behind: %s", name)
			if strings.HasPrefix(name, "bucket/made/") {
				s.Drop(name)
			}
		}
	}
	left := expect.Must(os.ReadDir(os.Getenv("TMPDIR")))(t)
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

// TestACommitThatFailsLeavesItsFilesToOthers that write the same dataset; cleaning removes them.
func TestACommitThatFailsLeavesItsFilesToOthers(t *testing.T) {
	s := stores.New(t)
	t.Setenv("KHOP_CACHE_DIR", t.TempDir())
	dst := "s3://bucket/x.khop"
	stages := expect.Must(PlanTasks(t.Context(), write(t, "e.csv", "src,dst\n0,1\n1,2\n"), dst, 2, Options{}))(t)
	for _, task := range slices.Concat(stages[:len(stages)-1]...) {
		expect.Must(RunTask(t.Context(), task, Options{}))(t)
	}
	s.Fail(func(_ int, r *http.Request) stores.Fault {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "dataset.json") {
			return stores.Refuses
		}
		return stores.None
	})
	commit := stages[len(stages)-1][0]
	_, err := RunTask(t.Context(), commit, Options{})
	_, there := s.Get("bucket/x.khop/graph/indptr.arrow")
	expect.That(t, errors.Is(err, fs.ErrPermission) && there, "%v, %v", err, there)
	s.Fail(nil)
	s.Put("bucket/x.khop/notes.txt", nil)
	expect.OK(t, CleanTasks(t.Context(), dst))
	expect.That(t, slices.Equal(s.Names(), []string{"bucket/x.khop/notes.txt"}), "left: %q", s.Names())
}

// TestTasksBringTheirPartOfASource, each on a machine of its own: all together little more than the source.
func TestTasksBringTheirPartOfASource(t *testing.T) {
	s := stores.New(t)
	var text strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&text, "%d %d %d\n", i*7919%5000, i*104729%5000, i)
	}
	src := write(t, "edges.txt", text.String())
	opt := Options{Columns: []string{"src", "dst", "time"}}
	_, whole := convert(t, src, opt)
	from := s.PutFolder(t, "bucket", "raw", filepath.Dir(src)) + "/edges.txt"
	dst := filepath.Join(t.TempDir(), "tasks")
	stages := expect.Must(PlanTasks(t.Context(), from, dst, 3, opt))(t)
	s.Fail(nil)
	for _, task := range slices.Concat(stages...) {
		t.Setenv("KHOP_CACHE_DIR", t.TempDir())
		expect.Must(RunTask(t.Context(), task, opt))(t)
	}
	_, sent := s.Requests()
	size := int64(text.Len())
	expect.That(t, sent < size+8*256<<10, "%d bytes came of a source of %d", sent, size)
	got := expect.Must(remote.Open(t.Context(), dst, remote.Options{}))(t)
	expect.That(t, got.ID() == whole.ID(), "another dataset")
	expect.OK(t, got.Close())
	s.PutFolder(t, "bucket", "raw", filepath.Dir(write(t, "edges.txt", text.String()[1:])))
	t.Setenv("KHOP_CACHE_DIR", t.TempDir())
	expect.OK(t, os.Remove(filepath.Join(workOf(dst), doneName, "read-1.json")))
	_, err := RunTask(t.Context(), stages[0][1], opt)
	expect.That(t, errors.Is(err, source.ErrChanged), "of another version: %v", err)
}

// TestASourceThatIsLongerThanTheDiskIsRefused before a byte of it is asked for, and one longer than any disk.
func TestASourceThatIsLongerThanTheDiskIsRefused(t *testing.T) {
	for size, says := range map[int64]string{15 << 40: "free: make room there", math.MaxInt64: "the most"} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("list-type") {
				asked++
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprintf(w, "<ListBucketResult><Contents><Key>g/a.csv</Key><Size>%d</Size></Contents>"+
				"<Contents><Key>g/b.csv</Key><Size>%[1]d</Size></Contents></ListBucketResult>", size)
		}))
		for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_S3": "",
			"AWS_EC2_METADATA_DISABLED": "true", "KHOP_CACHE_DIR": t.TempDir()} {
			t.Setenv(name, value)
		}
		_, err := Run(t.Context(), "s3://bucket/g", filepath.Join(t.TempDir(), "x.khop"), Options{})
		server.Close()
		expect.That(t, err != nil && strings.Contains(err.Error(), says) && asked == 1, "%v, %d requests", err, asked)
	}
}
