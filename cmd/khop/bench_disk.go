package main

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/tier"
)

// printDisk says what was read of columns on disk.
func (r *benchResult) printDisk(t *table, d *tier.DiskStats) {
	t.say("disk", "%s of %d rows missed; %.0f requests and %s a batch, of which %s are rows asked for",
		percent(d.Misses, d.Rows), d.Rows, float64(d.Requests)/float64(max(d.Batches, 1)),
		machine.Bytes(d.Bytes/max(d.Batches, 1)), percent(d.Useful, d.Bytes))
	t.say("", "%.0f requests/s by %s; %.2f ms a worker and batch waited for it; %d batches known ahead",
		float64(d.Requests)/r.Seconds, describeProbe(&d.Probe), r.DiskMs, d.Lookahead)
	printPack(t, d)
}

// printPack says what was packed.
func printPack(t *table, d *tier.DiskStats) {
	for _, p := range d.Pack {
		if p.Refused != "" {
			t.row("", p.Refused)
		}
	}
	if d.Packed > 0 {
		t.say("", "packed: %s of the rows missed; %d writes of %s in all", percent(d.Packed, d.Misses),
			d.Writes, machine.Bytes(d.Written))
	}
}

func percent(part, of int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(of, 1)))
}
