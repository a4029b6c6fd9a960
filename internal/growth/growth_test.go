//go:build !race

package growth

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// failures collects what a test would fail with.
type failures struct {
	testing.TB
	list []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func TestAQuadraticCostIsSeen(t *testing.T) {
	var sum int
	for name, c := range map[string]struct {
		n    int
		do   func(n int)
		fail bool
	}{
		"linear": {1 << 21, func(n int) {
			for i := range n {
				sum += i ^ sum
			}
		}, false},
		"quadratic": {1 << 11, func(n int) {
			for i := range n {
				for k := range n {
					sum += i ^ k ^ sum
				}
			}
		}, true},
	} {
		f := &failures{TB: t}
		Linear(f, c.n, c.do)
		expect.That(t, (len(f.list) > 0) == c.fail, "%s: %v", name, f.list)
	}
}
