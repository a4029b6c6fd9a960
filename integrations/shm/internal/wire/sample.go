package wire

import (
	"fmt"
	"math/bits"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// In Sample.Flags: each seed has a time; and a first time.
const (
	Timed    = 1 << 0
	Windowed = 1 << 1
)

// Sample asks for one batch, which a BATCH of the same Run announces. Sets of seeds follow, of Size bytes.
type Sample struct {
	Head
	Run, Size     uint32
	Epoch, Number uint64
}

func (m Sample) tail() uint64 { return uint64(m.Size) }
func (m Sample) sound() bool {
	return m.Run > 0 && m.Epoch < 1<<32 && m.Flags < 1<<2 && m.Flags != Windowed
}

// setHead is the bytes before the ids of a set: its type, and how many ids there are.
const setHead = 8

// AppendSample appends a SAMPLE for the seeds; false where a message has no room for them, or they are not nodes of one
// type a set.
func AppendSample(b []byte, m Sample, seeds graph.Seeds) ([]byte, bool) {
	var tail []byte
	for _, set := range seeds.Sets {
		tail = le.AppendUint32(tail, uint32(set.Type))
		tail = le.AppendUint32(tail, uint32(set.Len()))
		if set.Types != nil || setHead+8*set.Len() > MaxMessage {
			return b, false
		}
		for i := range set.Len() {
			_, id := graph.Seeds{Sets: []graph.SeedSet{set}}.At(i)
			tail = le.AppendUint64(tail, uint64(id))
		}
		for i, list := range [][]int64{set.Times, set.From} {
			for _, time := range list {
				tail = le.AppendUint64(tail, uint64(time))
			}
			if list != nil {
				m.Flags |= Timed << i
			}
		}
	}
	m.Size = uint32(len(tail))
	b = Append(b, KindSample, m, tail)
	return b, len(seeds.Edges) == 0 && len(b) <= MaxMessage
}

// Seeds reads the sets that follow a Sample. They have memory of their own. Whether nodes are there is not looked at.
func (m Sample) Seeds(tail []byte) (seeds graph.Seeds, err error) {
	take := func(n uint32) []int64 {
		v := make([]int64, n)
		for i := range v {
			v[i], tail = int64(le.Uint64(tail)), tail[8:]
		}
		return v
	}
	lists := 1 + uint64(bits.OnesCount16(m.Flags))
	for len(tail) > 0 {
		if len(tail) < setHead {
			return seeds, fmt.Errorf("%w: SAMPLE with %d bytes after its last set", ErrMessage, len(tail))
		}
		nodeType, count := le.Uint32(tail), le.Uint32(tail[4:])
		if tail = tail[setHead:]; 8*lists*uint64(count) > uint64(len(tail)) || nodeType > 1<<30 {
			return seeds, fmt.Errorf("%w: SAMPLE with %d nodes of type %d in %d bytes", ErrMessage, count, nodeType,
				len(tail))
		}
		set := graph.SeedSet{Type: int(nodeType), IDs: unified.FromSlice(take(count))}
		if lists > 1 {
			set.Times = take(count)
		}
		if lists > 2 {
			set.From = take(count)
		}
		seeds.Sets = append(seeds.Sets, set)
	}
	return seeds, nil
}
