package diskio

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
)

// slowly counts misses of LRU, SIEVE or the static policy as plainly as can be: a list, the newest row first.
func slowly(policy disk.Policy, asks [][]uint32, slots, from int) (misses int64) {
	var list []uint32
	visited, hand, uses := map[uint32]bool{}, -1, map[uint32]int{}
	for _, rows := range asks[:from] {
		for _, row := range rows {
			uses[row]++
		}
	}
	if policy == disk.Static {
		for row := range uses {
			list = append(list, row)
		}
		slices.SortFunc(list, func(a, b uint32) int {
			if uses[a] != uses[b] {
				return uses[b] - uses[a]
			}
			return int(a) - int(b)
		})
		list = list[:min(slots, len(list))]
	}
	for t, rows := range asks {
		for _, row := range rows {
			i := slices.Index(list, row)
			if i >= 0 {
				if visited[row] = true; policy == disk.LRU {
					list = slices.Insert(slices.Delete(list, i, i+1), 0, row)
				}
				continue
			}
			if t >= from {
				misses++
			}
			if policy == disk.Static || slots == 0 {
				continue
			}
			if len(list) == slots {
				at := len(list) - 1
				if policy == disk.Sieve {
					if hand >= 0 {
						at = hand
					}
					for visited[list[at]] {
						visited[list[at]] = false
						if at--; at < 0 {
							at = len(list) - 1
						}
					}
					hand = at - 1
				}
				delete(visited, list[at])
				list = slices.Delete(list, at, at+1)
			}
			if list = slices.Insert(list, 0, row); hand >= 0 {
				hand++
			}
		}
	}
	return misses
}

func TestPoliciesMissWhatTheirListsMiss(t *testing.T) {
	r := newRandom(t)
	for range 200 {
		rows, slots := 1+r.IntN(60), r.IntN(40)
		asks := asksOf(r, 2+r.IntN(20), rows, 30)
		for i := range asks {
			asks[i] = slices.Compact(slices.Sorted(slices.Values(asks[i])))
			r.Shuffle(len(asks[i]), func(a, b int) { asks[i][a], asks[i][b] = asks[i][b], asks[i][a] })
		}
		from := r.IntN(len(asks))
		layout := Layout{RowBytes: 64, Rows: int64(rows), Shape: disk.Shape{Page: 64, Most: 256, Sector: 64}}
		for _, p := range []disk.Policy{disk.Static, disk.LRU, disk.Sieve} {
			got := expect.Must(Simulate(p, layout, PlannerOptions{Slots: slots}, asks, from))(t)
			want := slowly(p, asks, min(slots, rows), from)
			expect.Ensure(t, got.Misses == want, "%v: %d misses, want %d: %d rows, %d slots, from %d\n%v", p,
				got.Misses, want, rows, slots, from, asks)
		}
		best := expect.Must(Simulate(disk.Optimum, layout, PlannerOptions{Slots: slots}, asks, 0))(t)
		want := int64(optimum(asks, min(slots, rows)))
		expect.Ensure(t, best.Misses == want, "the optimum has %d misses, want %d", best.Misses, want)
	}
}
