//go:build unix

package source

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestPipesAndDevicesAreRefusedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for path, says := range map[string]string{pipe: "is a pipe; copy it to a file first", "/dev/zero": "is a device",
		"-": "standard input is not read; write it to a file first"} {
		for what, open := range map[string]func(string) (*File, error){"Open": Open, "OpenText": OpenText} {
			_, err := open(path)
			expect.That(t, err != nil && strings.Contains(err.Error(), path) && strings.Contains(err.Error(), says),
				"%s %s: %v, want %q", what, path, err, says)
		}
	}
}
