// Package pinnedtest has what tests of mapped files share.
package pinnedtest

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/pinned"
)

// Map writes a file of that many zero bytes and then data, and returns the bytes of data as they are mapped, until the
// test ends.
func Map(t testing.TB, path string, zeros int, data []byte) []byte {
	t.Helper()
	if err := os.WriteFile(path, append(make([]byte, zeros), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	region, err := pinned.MapFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := region.Close(); err != nil {
			t.Error(err)
		}
	})
	return region.Bytes()[zeros:]
}
