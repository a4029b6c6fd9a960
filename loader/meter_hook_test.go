package loader

import (
	"testing"

	"github.com/khop-gnn/khop/internal/meters"
)

// MeterWith lets loaders find other meters until the test ends.
func MeterWith(t testing.TB, open func(address string) *meters.Meters) {
	had := openMeters
	openMeters = open
	t.Cleanup(func() { openMeters = had })
}
