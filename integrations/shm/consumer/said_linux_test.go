package consumer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// Errors name the fault in a server's answer. The test counts each message, of 150 faulty answers of each kind.
func TestWhatIsSaidOfLiesIsKnown(t *testing.T) {
	hurry(t)
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		r, count := rand.New(rand.NewPCG(20261123, 7)), expect.Tally{}
		for range 150 {
			l := newLiar(t)
			changes[name](l, r)
			n, err := l.consume(t)
			if err == nil {
				count.Add(fmt.Sprint(n, " batches"))
			} else {
				count.Fault(t, fmt.Sprint(n, " batches, "), err, "")
			}
			expect.OK(t, l.ring.Close())
		}
		fmt.Fprintf(&got, "# %s\n%s", name, &count)
	}
	expect.Golden(t, "testdata/said.txt", got.String())
}
