package rows_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rowpipe"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/rows"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestAProgramBringsRows(t *testing.T) {
	if file := os.Getenv("ROWS_OF_TEST"); file != "" {
		serveRows(t, file)
		return
	}
	whole := graphs.Plain(t, 4000, 6)
	here, features := withoutFeatures(t, whole)
	folder := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(folder, "rows"), features, 0o600))
	script := "#!/bin/sh\nROWS_OF_TEST='" + folder + "/rows' ROWS_AT=\"$2\" exec '" + expect.Must(os.Executable())(t) +
		"' -test.run '^TestAProgramBringsRows$'\n"
	expect.OK(t, os.WriteFile(filepath.Join(folder, "program"), []byte(script), 0o700))
	t.Setenv("KHOP_ROWS", filepath.Join(folder, "program"))
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{4, 3}}, BatchSize: 100, Shuffle: true, Workers: 2,
		Device: loader.DeviceOptions{Name: "cpu"}}
	want := expect.Must(digests(t, whole, opt))(t)
	opt.Disk = loader.DiskOptions{CacheBytes: 8000, Lookahead: 5}
	from := func(at string) error {
		remote, err := rows.From(at)
		if err != nil {
			return err
		}
		opt.Hooks.Remote = remote
		for range 2 { // one after the other
			got, err := digests(t, here, opt)
			if err != nil {
				return err
			}
			expect.That(t, slices.Equal(got, want), "other batches")
		}
		return nil
	}
	expect.OK(t, from("grpc://good:1"))
	for at, want := range map[string]string{"grpc://bad:1": "RowsFrom of grpc://bad:1: no such server",
		"grpc://dies:1": "has ended", "http://good:1": "must be such as grpc://HOST:PORT",
		"grpc://late:1": "row lost"} {
		err := from(at)
		expect.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", at, err)
	}
	t.Setenv("KHOP_ROWS", "no-such-program")
	err := from("grpc://good:1")
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), "go build ./khop-rows"), "%v",
		err)
}

// TestPlacedSourcesShareAProgram: it ends with the last of them.
func TestPlacedSourcesShareAProgram(t *testing.T) {
	remote := expect.Must(rows.From("grpc://good:1"))(t)
	t.Setenv("KHOP_ROWS", "false")
	expect.That(t, remote.Open(t.Context(), "", nil) != nil && remote.Close() == nil, "a program that fails runs")
	script := filepath.Join(t.TempDir(), "program")
	expect.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nROWS_OF_TEST=/dev/null ROWS_AT=\"$2\" exec '"+
		expect.Must(os.Executable())(t)+"' -test.run '^TestAProgramBringsRows$'\n"), 0o700))
	t.Setenv("KHOP_ROWS", script)
	expect.OK(t, remote.Open(t.Context(), "", nil))
	t.Setenv("KHOP_ROWS", "no-such-program")
	expect.OK(t, remote.Open(t.Context(), "", nil))
	expect.OK(t, remote.Close())
	expect.OK(t, remote.Open(t.Context(), "", nil))
	expect.OK(t, errors.Join(remote.Close(), remote.Close(), remote.Close()))
	expect.That(t, remote.Open(t.Context(), "", nil) != nil, "the program runs still")
}

// digests returns those of an epoch's batches.
func digests(t *testing.T, src loader.Source, opt loader.Options) (list []uint64, err error) {
	t.Helper()
	l, err := loader.New(src, opt)
	if err != nil {
		return nil, err
	}
	for b, e := range l.Epoch(t.Context(), 0) {
		if err = e; err == nil {
			_, full := b.Digest()
			list = append(list, full)
		}
	}
	return list, errors.Join(err, l.Close())
}

// withoutFeatures returns a graph with zeros in place of its features, and those.
func withoutFeatures(t *testing.T, whole *graph.Graph) (here *graph.Graph, features []byte) {
	t.Helper()
	a := graphs.ArraysOf(whole)
	x := a.NodeColumns[0]["feature"]
	features = slices.Clone(x.Bytes())
	a.NodeColumns[0]["feature"] = expect.Must(unified.New(x.DType(), make([]byte, len(features)), x.Shape()...))(t)
	return graphs.Of(t, a), features
}

// serveRows is the program.
func serveRows(t *testing.T, file string) {
	features := expect.Must(os.ReadFile(file))(t)
	at := os.Getenv("ROWS_AT")
	if at == "grpc://dies:1" {
		os.Exit(3)
	}
	var calls atomic.Int64
	ctx := context.Background()
	_ = rowpipe.Serve(ctx, os.Stdin, os.Stdout, func(_ string, c []rowpipe.Column) (rowpipe.Fetch, error) {
		if at == "grpc://bad:1" {
			return nil, errors.New("no such server")
		}
		return func(_ context.Context, i int, ids []int64, to []byte) error {
			if at == "grpc://late:1" && calls.Add(1) > 9 {
				return errors.New("row lost")
			}
			for k, id := range ids {
				copy(to[int64(k)*c[i].RowBytes:int64(k+1)*c[i].RowBytes], features[id*c[i].RowBytes:])
			}
			return nil
		}, nil
	})
	os.Exit(0)
}
