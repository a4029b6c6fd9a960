package loader

import (
	"testing"

	"github.com/khop-gnn/khop/internal/machine"
)

// ActivityIs lets loaders find another activity of the machine until the test ends.
func ActivityIs(t testing.TB, read func() machine.Activity) {
	had := readActivity
	readActivity = read
	t.Cleanup(func() { readActivity = had })
}
