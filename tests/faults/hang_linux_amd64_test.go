//go:build !race

package faults

import (
	"os/exec"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
)

// A program that sleeps hangs, one that runs wants the processor.
func TestWhoSleepsIsToldFromWhoWaitsForAProcessor(t *testing.T) {
	for script, want := range map[string]bool{"sleep 100": false, "while :; do :; done": true} {
		cmd := exec.Command("sh", "-c", "exec "+script)
		if want {
			cmd = exec.Command("sh", "-c", script)
		}
		must(t, cmd.Start())
		got := !want
		for end := time.Now().Add(patience); got != want && time.Now().Before(end); { // sh may just begin
			got = wantsProcessor(cmd.Process.Pid)
		}
		expect.That(t, got == want, "%q: %v", script, got)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
}
