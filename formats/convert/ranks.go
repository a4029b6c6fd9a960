package convert

import (
	"slices"

	"github.com/khop-gnn/khop/pinned"
)

// ranks cut items, in the order of their draws, into stretches: cut i ends with draw last[i].
type ranks struct {
	cuts []int64
	last []uint64
}

// of returns the number of the stretch of a draw; that behind the last cut is len(cuts).
func (r *ranks) of(draw uint64) int {
	for i, last := range r.last {
		if draw <= last && r.cuts[i] > 0 {
			return i
		}
	}
	return len(r.last)
}

// rank finds the draws at which n items, which each yields twice, are cut behind the numbers of items in cuts. It keeps
// a 65,536th of the draws in memory for each cut. Items of equal draws are in one stretch.
func rank(cuts []int64, n int64, l *pinned.Ledger, each func(func(draw uint64) error) error) (ranks, error) {
	const bins = 1 << 16
	r := ranks{cuts: cuts, last: make([]uint64, len(cuts))}
	if n == 0 || len(cuts) == 0 {
		return r, nil
	}
	var count [bins]int64
	if err := each(func(draw uint64) error { count[draw>>48]++; return nil }); err != nil {
		return r, err
	}
	wanted, memory := map[uint64][]uint64{}, int64(0) // the draws in the bins of the cuts
	before := make([]int64, len(cuts))                // items in the bins before that of a cut
	for i, cut := range cuts {
		bin, sum := uint64(0), int64(0)
		for cut > 0 && sum+count[bin] < cut {
			sum += count[bin]
			bin++
		}
		if before[i] = sum; cut > 0 && wanted[bin] == nil {
			wanted[bin], memory = []uint64{}, memory+8*count[bin]
		}
		r.last[i] = bin << 48
	}
	if err := l.Take(pinned.Sources, memory); err != nil {
		return r, err
	}
	defer l.Give(pinned.Sources, memory)
	for bin := range wanted {
		wanted[bin] = make([]uint64, 0, count[bin])
	}
	err := each(func(draw uint64) error {
		if list, ok := wanted[draw>>48]; ok {
			wanted[draw>>48] = append(list, draw)
		}
		return nil
	})
	for i, cut := range cuts {
		if list := wanted[r.last[i]>>48]; cut > 0 && err == nil {
			slices.Sort(list)
			r.last[i] = list[cut-before[i]-1]
		}
	}
	return r, err
}

// smallest keeps the smallest draws of a class, and up to as many others.
type smallest struct {
	most  int
	draws []uint64
}

// add adds a draw.
func (s *smallest) add(draw uint64) {
	if s.draws = append(s.draws, draw); len(s.draws) == 2*s.most {
		s.cut()
	}
}

// cut leaves the smallest, in order.
func (s *smallest) cut() {
	slices.Sort(s.draws)
	s.draws = s.draws[:min(len(s.draws), s.most)]
}
