package loader

import "testing"

// SimulateAbout lets outlooks simulate about so many asks for rows until the test ends.
func SimulateAbout(t testing.TB, asks int64) {
	had := mostSimulated
	mostSimulated = asks
	t.Cleanup(func() { mostSimulated = had })
}
