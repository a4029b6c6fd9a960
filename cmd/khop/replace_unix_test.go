//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// Every command that replaces a dataset is interrupted when it has begun to write the new one.
func TestAnInterruptedCommandLeavesTheOldDataset(t *testing.T) {
	list := filepath.Join(t.TempDir(), "edges.txt")
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "%d %d\n", i, (i*7919+1)%200_000)
	}
	expect.OK(t, os.WriteFile(list, []byte(b.String()), 0o600))
	for name, command := range map[string]func(data string) []string{
		"convert": func(data string) []string { return []string{"convert", list, data, "--force"} },
		"generate": func(data string) []string {
			return []string{"generate", "sbm", data, "--nodes", "200000", "--force"}
		},
		"demo": func(data string) []string { return []string{"demo", data, "--nodes", "200000", "--force"} },
	} {
		t.Run(name, func(t *testing.T) {
			data := small(t)
			before := object(t, "info", data, "--json")["id"]
			code := interrupt(t, data, command(data))
			after := object(t, "info", data, "--json")["id"]
			t.Logf("status %d", code)
			if (code == exitInterrupted) != (after == before) || code != exitInterrupted && code != exitDone {
				t.Errorf("status %d; the dataset was %v and is %v", code, before, after)
			}
			must(t, "check", data)
			list, err := os.ReadDir(filepath.Dir(data))
			expect.That(t, err == nil && len(list) == 1, "left behind: %v, %v", list, err)
		})
	}
}

// interrupt runs a command, interrupts it when the workspace beside the dataset is there, and returns its exit status.
func interrupt(t *testing.T, data string, command []string) int {
	t.Helper()
	cmd := process(t, program(t), command...)
	expect.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		_, err := os.Stat(data + ".khop-new/new/graph/indices.arrow")
		if err == nil {
			_ = cmd.Process.Signal(unix.SIGINT)
		}
		if err == nil || len(ended) > 0 {
			break
		}
	}
	err := <-ended
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	expect.OK(t, err)
	return exitDone
}
