package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/cmd/khop/internal/ending"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/underway"
)

// lateEnd is an output that ends a command when it has said something.
type lateEnd struct {
	mu   sync.Mutex
	said strings.Builder
	what string
	end  context.CancelFunc
}

func (l *lateEnd) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.Write(p)
	if strings.Contains(l.said.String(), l.what) {
		l.end()
	}
	return len(p), nil
}

// Work that stands still says where, and what it waits for: a store, a pipe's reader, its writer, or nothing known.
func TestWorkThatStandsStillSaysWhatItWaitsFor(t *testing.T) {
	was, all := ending.Standstill, moved
	ending.Standstill = 30 * time.Millisecond
	t.Cleanup(func() { ending.Standstill, moved = was, all })
	data, dir := small(t), t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	expect.OK(t, unix.Mkfifo(pipe, 0o600))
	store := "http://" + deafStore(t) + "/x"
	for line, says := range map[string]string{
		"info " + store:                             "it waits for " + store,
		"info " + data + " --plot " + pipe:          "it waits for a reader of the pipe " + pipe,
		"bench " + data + " --trace " + pipe:        "it waits for a reader of the pipe " + pipe,
		"convert " + data + " x --config " + pipe:   "it waits for the end of " + pipe,
		"check " + data:                             `stage "check", at `,
		"export " + data + " " + pipe + " --to npz": "it waits for a reader of the pipe " + pipe,
		"train " + data + " --epochs 100":           `stage "epoch 3", at 1 of 1`,
	} {
		ctx, end := context.WithCancel(t.Context())
		stderr := &lateEnd{what: says, end: end}
		moved = func(stage string, done, total int64) {
			underway.Moved(stage, done, total)
			if stage == "check" || stage == "epoch 3" {
				<-ctx.Done()
			}
		}
		var open *os.File
		if strings.Contains(line, "--config") {
			open = expect.Must(os.OpenFile(pipe, os.O_RDWR, 0))(t)
		}
		_ = run(ctx, strings.Fields(line), &lateEnd{what: "never", end: end}, stderr, false)
		expect.That(t, strings.Contains(stderr.said.String(), "khop: nothing has moved for "), "khop %s: %s", line,
			&stderr.said)
		_ = open.Close()
		end()
	}
}
