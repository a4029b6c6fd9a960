package wire

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// A request comes as it was sent, and what is cut short of it anywhere is refused, but between two sets.
func TestSeedsOfARequestComeAsTheyWereSent(t *testing.T) {
	of := func(kind int, ids, times, from []int64) graph.SeedSet {
		return graph.SeedSet{Type: kind, IDs: unified.FromSlice(ids), Times: times, From: from}
	}
	for _, sets := range [][]graph.SeedSet{
		{of(0, []int64{5, 1 << 40, 0}, nil, nil), of(1<<30, []int64{2}, nil, nil)},
		{of(3, []int64{7, 7}, []int64{-9, 1 << 62}, nil), of(0, []int64{1}, []int64{0}, nil)},
		{of(3, []int64{7, 7}, []int64{-9, 1 << 62}, []int64{-1 << 63, 5}), of(0, []int64{1}, []int64{0}, []int64{8})},
	} {
		b, ok := AppendSample(nil, Sample{Run: 1, Epoch: 1<<32 - 1, Number: 4}, graph.Seeds{Sets: sets})
		expect.Ensure(t, ok, "it has no room")
		m, tail := expect.Must2(Parse[Sample](b))(t)
		got := expect.Must(m.Seeds(tail))(t)
		expect.Ensure(t, len(got.Sets) == len(sets) && m.Epoch == 1<<32-1 && m.Number == 4, "%+v: %+v", m, got)
		var ends []int
		for i, want := range sets {
			g := got.Sets[i]
			expect.That(t, g.Type == want.Type && slices.Equal(g.IDs.Bytes(), want.IDs.Bytes()) &&
				slices.Equal(g.Times, want.Times) && slices.Equal(g.From, want.From), "%+v came back as %+v", want, g)
			ends = append(ends, len(tail))
			tail = tail[setHead+8*(want.Len()+int64(len(want.Times)+len(want.From))):]
		}
		_, tail = expect.Must2(Parse[Sample](b))(t)
		for cut := 1; cut < len(tail); cut++ {
			_, err := m.Seeds(tail[:cut])
			whole := slices.Contains(ends[1:], len(tail)-cut)
			expect.That(t, (err == nil) == whole, "%d of %d bytes: %v", cut, len(tail), err)
		}
	}
}

func TestRequestsBeyondTheirLimitsAreRefused(t *testing.T) {
	m := Sample{Run: 1, Epoch: 1<<32 - 1, Head: Head{Flags: Timed}}
	expect.That(t, parses(t, KindSample, m, ""), "what is right was refused")
	for name, taken := range map[string]bool{
		"no run":         parses(t, KindSample, Sample{Epoch: 1}, ""),
		"epoch 2^32":     parses(t, KindSample, Sample{Run: 1, Epoch: 1 << 32}, ""),
		"another flag":   parses(t, KindSample, Sample{Run: 1, Head: Head{Flags: 4}}, ""),
		"first times":    parses(t, KindSample, Sample{Run: 1, Head: Head{Flags: Windowed}}, ""),
		"seeds cut":      parses(t, KindSample, Sample{Run: 1, Size: 9}, "12345678"),
		"seeds and more": parses(t, KindSample, Sample{Run: 1, Size: 7}, "12345678"),
	} {
		expect.That(t, !taken, "%s was taken", name)
	}
	set := le.AppendUint32(nil, 1<<30+1) // a type that no graph has, and no ids
	_, err := Sample{}.Seeds(append(set, 0, 0, 0, 0))
	expect.Is(t, err, ErrMessage, "type 2^30 + 1")
	got, err := Sample{}.Seeds(make([]byte, setHead))
	expect.That(t, err == nil && len(got.Sets) == 1, "a set without nodes: %+v, %v", got, err)
	most := graph.SeedSet{IDs: unified.FromSlice(make([]int64, (MaxMessage-setHead)/8))}
	_, ok := AppendSample(nil, Sample{}, graph.Seeds{Sets: []graph.SeedSet{most}})
	expect.That(t, !ok, "a message of %d seeds fits, without its head", most.Len())
	_, ok = AppendSample(nil, Sample{}, graph.Seeds{Edges: make([]graph.EdgeSet, 1)})
	expect.That(t, !ok, "edges were taken for nodes")
}
