package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/server"
)

func TestALoaderInsideSpeaksAsServeDoesAndLeavesTheHeapAsItWas(t *testing.T) {
	dataset := t.TempDir() + "/sbm.khop"
	if code := run(t.Context(), []string{"generate", "sbm", dataset, "--nodes=200", "--edges=900"}, io.Discard,
		io.Discard, false); code != exitDone {
		t.Fatal("generate:", code)
	}
	limit := debug.SetMemoryLimit(-1)
	open := func(args ...string) (string, *inside) {
		args = append([]string{dataset, "--world-size=3"}, args...)
		hear, ring, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(hear.Close(), ring.Close()) })
		w := server.Within{Mail: new(server.Mail), Ring: func() {}, Bell: hear}
		i, err := openInside(t.Context(), 1, args, io.Discard, w)
		if err != nil {
			return err.Error(), nil
		}
		return "", i
	}
	for _, args := range [][]string{{"--seeds=nosuch"}, {"--batch-size=0"}, {"--sampler=walk", "--weight=w"},
		{"--node-columns=nosuch"}, {"--workers=-1"}} {
		var stderr bytes.Buffer
		run(t.Context(), append([]string{"serve", dataset, "--world-size=3", "--socket=" + socketPath(t)},
			args...), io.Discard, &stderr, false)
		want, _, _ := strings.Cut(strings.TrimPrefix(stderr.String(), "khop: "), "\nSee ")
		if got, _ := open(args...); got == "" || got != strings.TrimSpace(want) {
			t.Errorf("%v: %q, where serve says %q", args, got, want)
		}
	}
	if got, _ := open("--metrics=127.0.0.1:0"); !strings.HasPrefix(got, "--metrics is for a server of its own") {
		t.Errorf("--metrics: %q", got)
	}
	first, one := open("--max-memory=300MB")
	second, two := open()
	if one == nil || two == nil {
		t.Fatal(first, second)
	}
	if n := one.Options().Loader.Rank; n != 1 || debug.SetMemoryLimit(-1) == limit {
		t.Errorf("rank %d, and the heap's limit is %d", n, debug.SetMemoryLimit(-1))
	}
	for _, i := range []*inside{one, two} {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
	if now := debug.SetMemoryLimit(-1); now != limit {
		t.Errorf("the heap's limit was %d and is %d", limit, now)
	}
}
