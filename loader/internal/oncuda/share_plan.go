package oncuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// sharing is a plan: how many of the hottest rows each device keeps, and how many of the next are dealt among them.
type sharing struct {
	own, dealt int64
	hits       float64 // share of what is gathered that comes out of device memory, of any of them
	why        string
}

// readCost is what a row takes in seconds, or any other unit, from each tier.
type readCost struct{ own, peer, host float64 }

// fixedCost stands in where nothing is measured: that of devices with NVLink on a PCIe bus, about.
var fixedCost = readCost{own: 1, peer: 5, host: 40}

// planParts is in how many parts the room of a device is divided, to look for the fastest plan.
const planParts = 16

// planSharing finds the plan that should take least time, where each of k devices has this much room, in rows. Rows are
// gathered in proportion to their scores.
func planSharing(s Share, scores []float64, room, k int64, cost readCost) sharing {
	sum := shareOfHottest(scores)
	n := int64(len(scores))
	at := func(own int64) (p sharing, seconds float64) {
		p.own = min(own, n)
		p.dealt = min((room-p.own)*k, n-p.own)
		near := sum(p.own)
		p.hits = sum(p.own + p.dealt)
		local := near + (p.hits-near)/float64(k)
		return p, local*cost.own + (p.hits-local)*cost.peer + (1-p.hits)*cost.host
	}
	best, apart := at(room)
	all, dealt := at(0)
	least := apart
	switch s {
	case ShareNone:
		return best
	case ShareAll:
		best, least = all, dealt
	default:
		for part := range int64(planParts) {
			if p, seconds := at(room * part / planParts); seconds < least {
				best, least = p, seconds
			}
		}
	}
	best.why = fmt.Sprintf("%d rows on each, %d dealt; a row takes %.3g (the same rows on each %.3g, all dealt %.3g); "+
		"from here %.3g, a peer %.3g, the host %.3g", best.own, best.dealt, least, apart, dealt, cost.own, cost.peer,
		cost.host)
	return best
}

// shareOfHottest returns a function that says which share of all scores the n highest have.
func shareOfHottest(scores []float64) func(n int64) float64 {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	sum := 0.0
	for i := range sorted {
		sum += max(sorted[i], 0)
		sorted[i] = sum
	}
	return func(n int64) float64 {
		switch {
		case sum <= 0 || len(sorted) == 0:
			return float64(n) / float64(max(len(sorted), 1))
		case n <= 0:
			return 0
		}
		return sorted[min(n, int64(len(sorted)))-1] / sum
	}
}

const (
	probeBytes  = 4 << 20
	probeRounds = 3
)

// measureCost copies within the first device, from the second and from the host, a few milliseconds in all.
func measureCost(group []*placer) (cost readCost, err error) {
	near := group[0].d
	var mine, other, host *pinned.Region
	defer func() { err = errors.Join(err, mine.Close(), other.Close(), host.Close()) }()
	for _, a := range []struct {
		region **pinned.Region
		n      int64
		of     *placer
		place  pinned.Placement
	}{{&mine, 2 * probeBytes, group[0], pinned.Host}, {&other, probeBytes, group[1], pinned.Host},
		{&host, probeBytes, group[0], pinned.Pinned}} {
		*a.region, err = pinned.Allocate(a.n, pinned.Options{Device: a.of.d.Device, Place: a.place,
			Ledger: &a.of.plan.Set.Ledger, Purpose: pinned.Scratch})
		if errors.Is(err, pinned.ErrLimit) || errors.Is(err, device.ErrOutOfMemory) { // then nothing is measured
			return fixedCost, nil
		} else if err != nil {
			return cost, err
		}
	}
	stream, err := near.NewStream()
	if err != nil {
		return cost, err
	}
	defer stream.Close()
	to := mine.Address()
	for _, way := range []struct {
		took *float64
		copy func() error
	}{
		{&cost.own, func() error { return stream.Copy(to, to+probeBytes, probeBytes) }},
		{&cost.peer, func() error { return stream.Copy(to, other.Address(), probeBytes) }},
		{&cost.host, func() error { return stream.CopyToDevice(to, host.Bytes()) }},
	} {
		if *way.took, err = timed(near.Device, stream, way.copy); err != nil {
			return cost, err
		}
	}
	return cost, nil
}

// timed returns the least of some times that something took on a stream, in milliseconds.
func timed(d *device.Device, stream *device.Stream, do func() error) (least float64, err error) {
	var marks [2]*device.Event
	for i := range marks {
		if marks[i], err = d.NewTimer(); err != nil {
			return 0, err
		}
		defer marks[i].Close()
	}
	for range probeRounds {
		if err := stream.Record(marks[0]); err != nil {
			return 0, err
		}
		if err := do(); err != nil {
			return 0, err
		}
		if err := stream.Record(marks[1]); err != nil {
			return 0, err
		}
		if err := stream.Synchronize(); err != nil {
			return 0, err
		}
		took, err := marks[1].Elapsed(marks[0])
		if err != nil {
			return 0, err
		}
		if ms := float64(took) / float64(time.Millisecond); least == 0 || ms < least {
			least = ms
		}
	}
	return least, nil
}
