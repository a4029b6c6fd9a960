package consumer

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

var writeSaid = flag.Bool("write-said", false, "write testdata/said.txt in place of comparing with it")

// ofOthers is what differs from run to run, or what package json says.
var ofOthers = regexp.MustCompile(`process \d+|says no state: .*`)

// What is wrong with a server's answer is told in words that name it: the same for the same lie, whatever it is.
// -write-said writes them down.
func TestWhatIsSaidOfLiesIsKnown(t *testing.T) {
	hurry(t)
	var got bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		r := rand.New(rand.NewPCG(20261123, 7))
		for i := range 150 {
			l := newLiar(t)
			changes[name](l, r)
			n, err := l.consume(t)
			text, _, _ := strings.Cut(fmt.Sprint(err), "\n")
			fmt.Fprintf(&got, "%s %d: %d batches, %s\n", name, i, n, ofOthers.ReplaceAllString(text, "#"))
			expect.OK(t, l.ring.Close())
		}
	}
	const file = "testdata/said.txt"
	if *writeSaid {
		expect.OK(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	want := expect.Must(os.ReadFile(file))(t)
	if d := expect.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
		t.Errorf("%s", d)
	}
}
