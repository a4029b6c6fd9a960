//go:build linux || darwin

package staged

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/origin"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// twice opens a source of 16 chunks in a cache for two processes: locks are of open files.
func twice(t *testing.T) (store *stores.Store, text []byte, dir string, both [2]*Source) {
	store = stores.New(t)
	text = bytes.Repeat([]byte("edges"), 16*sourceChunk/5)
	store.Put("bucket/x", text)
	c := Cache{Dir: t.TempDir(), Size: 1 << 40}
	at := expect.Must(address.Parse("s3://bucket/x"))(t)
	for i := range both {
		both[i] = expect.Must(OpenSource(t.Context(), c, ranges.New(), at))(t)
		t.Cleanup(func() { _ = both[i].Close() })
	}
	store.Fail(nil) // counts from here on
	return store, text, c.Dir, both
}

// once sees that a source has come whole, and each of its bytes once.
func once(t *testing.T, store *stores.Store, text []byte, s *Source) {
	t.Helper()
	got := expect.Must(os.ReadFile(s.Path))(t)
	_, sent := store.Requests()
	expect.That(t, bytes.Equal(got, text), "other bytes have come")
	expect.That(t, sent == int64(len(text)), "%d bytes were sent, %d are needed", sent, len(text))
}

// TestWhatComesWhileAnotherTakesRoomIsThere: a pipe in the cache holds up the process that counts what the cache has.
func TestWhatComesWhileAnotherTakesRoomIsThere(t *testing.T) {
	store, text, dir, both := twice(t)
	expect.That(t, expect.Must(both[0].Reserve(t.Context(), 0))(t), "there is no room")
	pipe := filepath.Join(dir, "held", origin.Index)
	expect.OK(t, os.Mkdir(filepath.Dir(pipe), 0o700), unix.Mkfifo(pipe, 0o600))
	reserved := make(chan error)
	go func() {
		_, err := both[1].Reserve(t.Context(), 0)
		reserved <- err
	}()
	held := expect.Must(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // when the other one has come to it
	for unit := range 1 + 16 {
		expect.OK(t, both[0].Entry.Bring(t.Context(), 0, unit))
	}
	expect.OK(t, held.Close(), <-reserved, os.Remove(pipe))
	expect.OK(t, both[1].Bring(t.Context(), func(int64, int64) {}))
	once(t, store, text, both[1])
}

// TestOnlyWhatIsNotThereOfARequestComes, though it was not there when the request was made.
func TestOnlyWhatIsNotThereOfARequestComes(t *testing.T) {
	store, text, _, both := twice(t)
	expect.That(t, expect.Must(both[0].Reserve(t.Context(), 0))(t), "there is no room")
	expect.OK(t, both[0].bring(t.Context(), part{0, 4, 7}), both[0].bring(t.Context(), part{0, 9, 10}))
	expect.OK(t, both[1].bring(t.Context(), part{0, 0, 17}))
	once(t, store, text, both[1])
}
