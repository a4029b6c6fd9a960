package flight

import "sync"

// cache keeps rows of a column that were asked for often: a clock, whose hand spares rows that were used since it came
// by. Any number of workers share it.
type cache struct {
	width int

	mu    sync.Mutex
	rows  []byte
	ids   []int64
	used  []bool
	at    map[int64]int32
	hand  int
	asked int64
	hits  int64
}

// costOfRow is what a row takes beside its bytes: number, mark, and its entry of the map.
const costOfRow = 8 + 1 + 40

func newCache(bytes int64, width int, most int64) *cache {
	n := min(most, bytes/int64(width+costOfRow))
	return &cache{width: width, rows: make([]byte, n*int64(width)), ids: make([]int64, n), used: make([]bool, n),
		at: make(map[int64]int32, n)}
}

// take copies the rows that are there to their places, and returns the places of the others.
func (c *cache) take(ids []int64, rows []byte) (missing []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		slot, ok := c.at[id]
		if !ok {
			missing = append(missing, int32(i))
			continue
		}
		c.used[slot] = true
		copy(rows[i*c.width:(i+1)*c.width], c.rows[int(slot)*c.width:])
	}
	c.asked += int64(len(ids))
	c.hits += int64(len(ids) - len(missing))
	return missing
}

// put keeps rows that were fetched.
func (c *cache) put(ids []int64, places []int32, rows []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) == 0 {
		return
	}
	for _, i := range places {
		if _, ok := c.at[ids[i]]; ok {
			continue
		}
		slot := len(c.at)
		if slot == len(c.ids) {
			slot = c.evict()
		}
		c.ids[slot], c.used[slot], c.at[ids[i]] = ids[i], false, int32(slot)
		copy(c.rows[slot*c.width:(slot+1)*c.width], rows[int(i)*c.width:])
	}
}

// evict frees the slot of a row that was not used since the hand came by.
func (c *cache) evict() int {
	for c.used[c.hand] {
		c.used[c.hand] = false
		c.hand = (c.hand + 1) % len(c.ids)
	}
	slot := c.hand
	c.hand = (c.hand + 1) % len(c.ids)
	delete(c.at, c.ids[slot])
	return slot
}
