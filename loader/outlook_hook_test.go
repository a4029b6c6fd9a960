package loader

import (
	"testing"

	"github.com/khop-gnn/khop/loader/internal/outlook"
)

// SimulateAbout lets outlooks simulate about this number of requests for rows until the test ends.
func SimulateAbout(t testing.TB, asks int64) {
	had := outlook.MostSimulated
	outlook.MostSimulated = asks
	t.Cleanup(func() { outlook.MostSimulated = had })
}
