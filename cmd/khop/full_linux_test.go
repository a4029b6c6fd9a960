package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFilesThatMayNotGrowAnyFurtherLeaveNoHalf converts, adds and exports while files are bounded to random sizes
// (RLIMIT_FSIZE), as a full disk bounds them: KHOP_KILLS times, with a seed of its own then.
func TestFilesThatMayNotGrowAnyFurtherLeaveNoHalf(t *testing.T) {
	seed, rounds := uint64(11), 6
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		rounds, seed = n, uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var text strings.Builder
	for range 20_000 {
		fmt.Fprintf(&text, "%d %d %d\n", r.IntN(3000), r.IntN(3000), r.IntN(100))
	}
	src := textFile(t, "edges.txt", text.String())
	whole := filepath.Join(t.TempDir(), "whole.khop")
	must(t, "convert", src, whole, "--columns", "src,dst,time")
	failed := 0
	for round := range rounds {
		dir := t.TempDir()
		target, limit := filepath.Join(dir, "target"), 0 // at first nothing can be written
		if round > 0 {
			limit = r.IntN(200)
		}
		args := [][]string{
			{"convert", src, target, "--columns", "src,dst,time", "--max-memory", "33MiB"},
			{"convert", src, target, "--symmetrise"},
			{"export", whole, target, "--to", "numpy"},
		}[round%3]
		line := fmt.Sprintf("ulimit -f %d && exec \"$0\" \"$@\"", limit)
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", line, os.Args[0]}, args...)...)
		cmd.Env = append(os.Environ(), "KHOP_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		_ = cmd.Run()
		left, _ := os.ReadDir(dir)
		switch code := cmd.ProcessState.ExitCode(); {
		case code == exitDone && len(left) == 1:
			if args[0] == "convert" {
				must(t, "check", target)
			}
		case code == exitFailed && len(left) == 0 && strings.Contains(stderr.String(), dir):
			failed++
		default:
			t.Errorf("seed %d, %q within %d KiB: status %d, %s; left: %v", seed, args, limit, code, stderr.String(),
				left)
		}
	}
	if failed == 0 {
		t.Error("no command has failed")
	}
}
