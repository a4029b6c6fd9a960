package machine

import (
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
)

const stat = `cpu  9 9 9 9 9 9 9 9 0 0
cpu0 100 20 30 4000 500 6 7 8 90 90
cpu1 1 2 3 4 5 6 7 8 0 0
intr 1 2 3
`

func TestActivityIsOfTheProcessorsThatOneMayUse(t *testing.T) {
	root := tree(map[string]string{"proc/stat": stat})
	for name, c := range map[string]struct {
		of   map[int]bool
		want time.Duration
	}{"all": {nil, 1980 * time.Millisecond}, "the first": {map[int]bool{0: true}, 1710 * time.Millisecond}} {
		busy, ok := allBusy(root, c.of)
		expect.That(t, ok && busy == c.want, "%s: %v, %v, want %v", name, busy, ok, c.want)
	}
	_, ok := allBusy(tree(nil), nil)
	expect.That(t, !ok, "a system that does not tell is taken to tell")
}

func TestActivityTellsOwnFromOthers(t *testing.T) {
	at := time.Unix(100, 0)
	before := Activity{At: at, Own: time.Second, All: 10 * time.Second, Known: true}
	after := Activity{At: at.Add(4 * time.Second), Own: 3 * time.Second, All: 18 * time.Second, Known: true}
	own, others := after.Since(before)
	expect.That(t, own == 0.5 && others == 1.5, "own %v, others %v", own, others)
	before.Known = false
	own, others = after.Since(before)
	expect.That(t, own < 0 && others == 0, "not known: own %v, others %v", own, others)
}
