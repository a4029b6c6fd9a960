package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
)

// rotten generates a small graph, and flips a bit of a file of it.
func rotten(t *testing.T, file string, at func(size int64) int64, bit byte) (data, path string) {
	t.Helper()
	data = small(t)
	path = filepath.Join(data, file)
	flip(t, path, at, bit)
	return data, path
}

// flip flips a bit of a file, whose time stays, as a disk does.
func flip(t *testing.T, path string, at func(size int64) int64, bit byte) {
	t.Helper()
	st := expect.Must(os.Stat(path))(t)
	b := expect.Must(os.ReadFile(path))(t)
	b[at(st.Size())] ^= bit
	expect.OK(t, os.WriteFile(path, b, 0o600))
	expect.OK(t, os.Chtimes(path, time.Time{}, st.ModTime()))
}

func middle(size int64) int64 { return size/2&^3 + 3 }

func TestVerifyAndScrubFindARottenChunk(t *testing.T) {
	data, path := rotten(t, "nodes/n0/feature.arrow", middle, 1)
	must(t, "sample", data, "--digest")
	for _, args := range [][]string{{"sample", data, "--digest", "--verify"}, {"bench", data, "--verify"},
		{"sample", data, "--digest", "--verify", "--resident"}} {
		_, err, code := khop(t, args...)
		if code != exitFailed || !strings.Contains(err, path+": corrupt dataset: bytes ") ||
			!strings.Contains(err, `run "khop check `+data+`"`) {
			t.Errorf("khop %q: status %d, %s", args, code, err)
		}
	}
	out, err, code := khop(t, "check", data, "--scrub", "--rate", "1GB")
	expect.That(t, code == exitFailed && strings.Contains(out, path) && strings.Contains(err, "1 problem\n"),
		"status %d, %s, %s", code, out, err)
	whole := small(t)
	must(t, "sample", whole, "--verify", "--digest")
	must(t, "check", whole, "--scrub", "--json")
	if _, err, code := khop(t, "check", whole, "--rate", "1GB"); code != exitUsage {
		t.Errorf("--rate alone: status %d, %s", code, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err, code := khopIn(ctx, "check", whole, "--scrub", "--rate", "1"); code != exitInterrupted {
		t.Errorf("interrupted: status %d, %s", code, err)
	}
}

func TestDamageSaysWhichFileAndWhatToDo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Windows are quoted in another way")
	}
	for file, at := range map[string]func(int64) int64{
		"graph/indices.arrow": middle, "splits/node/train.arrow": middle, "graph/indptr.arrow": middle,
		"dataset.json":           middle,
		"nodes/n0/feature.arrow": func(size int64) int64 { return size - 20 },
	} {
		data, path := rotten(t, file, at, 64)
		_, err, code := khop(t, "sample", data, "--fanouts", "-1,-1", "--digest")
		if code != exitFailed || !strings.Contains(err, data) || !strings.Contains(err, `run "khop check `+data+`"`) {
			t.Errorf("%s: status %d, %s", path, code, err)
		}
	}
}
