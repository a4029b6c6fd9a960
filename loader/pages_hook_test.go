package loader

import (
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
)

// TimePages lets placed sources try this number of bytes of a column until the test ends, and find these times in
// milliseconds, one after the other, after what is timed has run. before is called first; nil for nothing.
func TimePages(t testing.TB, sample int64, before func(), times ...float64) {
	hadSample, had := oncuda.PageSample, oncuda.TimePages
	oncuda.PageSample = sample
	oncuda.TimePages = func(d *device.Device, s *device.Stream, do func() error) (float64, error) {
		if before != nil {
			before()
		}
		if _, err := had(d, s, do); err != nil {
			return 0, err
		}
		took := times[0]
		times = append(times[1:], took)
		return took, nil
	}
	t.Cleanup(func() { oncuda.PageSample, oncuda.TimePages = hadSample, had })
}
