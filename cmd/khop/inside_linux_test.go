package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

func TestALoaderInsideSpeaksAsServeDoesAndLeavesTheHeapAsItWas(t *testing.T) {
	dataset := t.TempDir() + "/sbm.khop"
	if code := run(t.Context(), []string{"generate", "sbm", dataset, "--nodes=200", "--edges=900"}, io.Discard,
		io.Discard, false); code != exitDone {
		t.Fatal("generate:", code)
	}
	limit := debug.SetMemoryLimit(-1)
	open := func(options string) (problem, *inside) {
		config := fmt.Sprintf(`{"dataset": %q, "rank": 1, "world_size": 3, %s}`, dataset, options)
		hear, ring := expect.Must2(os.Pipe())(t)
		t.Cleanup(func() { _ = errors.Join(hear.Close(), ring.Close()) })
		w := server.Within{Mail: new(server.Mail), Ring: func() {}, Bell: hear}
		i, err := openInside(t.Context(), config, nil, io.Discard, w)
		if err != nil {
			return asProblem(err), nil
		}
		return problem{}, i
	}
	for _, options := range []string{`"seeds": "nosuch"`, `"batch_size": 0`, `"sampler": "walk", "weight": "w"`,
		`"node_columns": ["nosuch"]`, `"workers": -1`, `"max_memory": "1MB"`} {
		file := filepath.Join(t.TempDir(), "config.json")
		expect.OK(t, os.WriteFile(file, []byte("{"+options+"}"), 0o600))
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"serve", dataset, "--config", file, "--socket=" + socketPath(t)}, io.Discard,
			&stderr, false)
		got, _ := open(options)
		want := got.line(1<<12) + "\n"
		if got.Message == "" || got.Usage != (code == exitUsage) || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("%s: %s, where serve says %s", options, want, &stderr)
		}
	}
	got, _ := open(`"metrics": "127.0.0.1:0"`)
	expect.That(t, got.Option == "metrics" && got.Usage, "metrics: %+v", got)
	first, one := open(`"max_memory": "2GB"`)
	second, two := open(`"seeds": null`)
	if one == nil || two == nil {
		t.Fatal(first, second)
	}
	if n := one.Options().Loader.Rank; n != 1 || debug.SetMemoryLimit(-1) == limit {
		t.Errorf("rank %d, and the heap's limit is %d", n, debug.SetMemoryLimit(-1))
	}
	for _, i := range []*inside{one, two} {
		expect.OK(t, i.Close())
	}
	now := debug.SetMemoryLimit(-1)
	expect.That(t, now == limit, "the heap's limit was %d and is %d", limit, now)
}

// A sampler of a configuration answers requests, and says what is wrong in the configuration's words.
func TestASamplerInsideAnswersRequests(t *testing.T) {
	dataset := t.TempDir() + "/sbm.khop"
	code := run(t.Context(), []string{"generate", "sbm", dataset, "--nodes=200", "--edges=900"}, io.Discard, io.Discard,
		false)
	expect.Ensure(t, code == exitDone, "generate: %d", code)
	limit := debug.SetMemoryLimit(-1)
	open := func(options string) (*asked, error) {
		return openAsked(t.Context(), fmt.Sprintf(`{"dataset": %q, %s}`, dataset, options), nil, io.Discard)
	}
	for options, says := range map[string]string{`"seeds": "train"`: "seeds come with each request",
		`"shuffle": true`: "shuffle is of epochs", `"residence": "disk"`: "residence is disk",
		`"metrics": "127.0.0.1:0"`: "for a server of its own", `"sampler": "nosuch"`: "nosuch"} {
		_, err := open(options)
		expect.That(t, err != nil && strings.Contains(asProblem(err).Message, says), "%s: %v, want %q", options, err,
			says)
	}
	a := expect.Must(open(`"fanouts": [3], "batch_size": 2, "workers": 1, "prefetch": 1, "hold": 2, ` +
		`"max_memory": "2GB"`))(t)
	expect.That(t, a.Stats().Slots == 4 && a.Path() == dataset, "%d slots, %s", a.Stats().Slots, a.Path())
	_, err := a.Sample(t.Context(), loader.Request{Seeds: graph.NodeIDs([]int64{1, 2, 3})})
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), "batch_size is 2"), "%v", err)
	b := expect.Must(a.Sample(t.Context(), loader.Request{Seeds: graph.NodeIDs([]int64{1, 2})}))(t)
	expect.OK(t, a.Close())
	b.Release()
	now := debug.SetMemoryLimit(-1)
	expect.That(t, now == limit, "the heap's limit was %d and is %d", limit, now)
}

func TestTheLargestLimitHoldsOfWhatRunsAtATime(t *testing.T) {
	var all heapLimits
	before := debug.SetMemoryLimit(-1)
	limits := []int64{64 << 30, 0, 128 << 30, 32 << 30}
	var leave []func()
	for _, limit := range limits {
		one := new(memoryLimit)
		leave = append(leave, all.enter(one))
		if limit > 0 {
			all.limit(one, limit)
		}
	}
	for i, want := range []int64{128 << 30, 128 << 30, 32 << 30} { // after the first, the second, the third has left
		leave[i]()
		now := debug.SetMemoryLimit(-1)
		expect.That(t, now <= want && now > want*7/8, "after %d have left the limit is %d, not near %d", i+1, now, want)
	}
	leave[3]()
	now := debug.SetMemoryLimit(-1)
	expect.That(t, now == before, "in the end the limit is %d, not %d", now, before)
}
