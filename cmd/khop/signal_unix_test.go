//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestSignalsEndTheProgram(t *testing.T) {
	data := small(t)
	// a batch each: no signal is so slow that they are all made before it
	seeds := filepath.Join(t.TempDir(), "seeds.txt")
	expect.OK(t, os.WriteFile(seeds, bytes.Repeat([]byte("7\n"), 200_000), 0o600))
	for _, signal := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		cmd := process(t, program(t), "sample", data, "--jsonl", "--batch-size", "1", "--seeds", "@"+seeds)
		out := expect.Must(cmd.StdoutPipe())(t)
		expect.OK(t, cmd.Start())
		lines := bufio.NewReader(out)
		_, err := lines.ReadString('\n') // it is at work, and will be until somebody reads on
		expect.OK(t, err)
		expect.OK(t, cmd.Process.Signal(signal))
		for err == nil {
			_, err = lines.ReadString('\n')
		}
		exit := (*exec.ExitError)(nil)
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: %v, want status %d", signal, err, exitInterrupted)
		}
	}
}

// A configuration that does not come is not waited for after a signal, and one without an end is refused.
func TestAConfigurationThatDoesNotComeIsGivenUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	expect.OK(t, unix.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{pipe: "no JSON object", "/dev/zero": "too long"} {
		_, stderr, code := khop(t, "serve", "nowhere", "--config", path)
		expect.That(t, code == exitUsage && strings.Contains(stderr, want), "%s: status %d, %s", path, code, stderr)
	}
	w := expect.Must(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer w.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stderr bytes.Buffer
	code := run(ctx, []string{"serve", "nowhere", "--config", pipe}, io.Discard, &stderr, false)
	expect.That(t, code == exitInterrupted, "status %d, %s", code, &stderr)
}

// Where few files may be open a command ends with a reason, not within Go's runtime.
func TestFewFilesAreSaidOrEnough(t *testing.T) {
	for n := 4; n <= leastFiles; n++ {
		limited := fmt.Sprintf("ulimit -n %d && exec \"$0\" check \"$1\"", n)
		said, err := process(t, "/bin/sh", "-c", limited, program(t), small(t)).CombinedOutput()
		expect.That(t, (err == nil) == (n >= leastFiles) && strings.Contains(string(said), "ulimit -n") == (err != nil),
			"%d: %v, %s", n, err, said)
	}
}
