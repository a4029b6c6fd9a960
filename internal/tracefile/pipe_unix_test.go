//go:build unix

package tracefile

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// A trace to a pipe waits for the reader when it begins, as long as the context lasts, and not when the work is done.
func TestATraceToAPipeWaitsForItsReaderFirst(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	expect.OK(t, unix.Mkfifo(pipe, 0o600))
	ctx, end := context.WithCancel(t.Context())
	end()
	_, err := Open(ctx, pipe)
	expect.Is(t, err, context.Canceled, "nobody reads")
	read := make(chan []byte)
	go func() {
		r := expect.Must(os.Open(pipe))(t)
		defer r.Close()
		read <- expect.Must(io.ReadAll(r))(t)
	}()
	f := expect.Must(Open(t.Context(), pipe))(t)
	f.Lane("one").Begin("span", 1).End()
	expect.OK(t, f.Close())
	text := <-read
	expect.That(t, json.Valid(text) && strings.Contains(string(text), `"span"`), "%s", text)
}
