package graph

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// communities is a graph of groups, whose nodes are mixed; most edges stay within a group.
func communities(t *testing.T, groups, size int) (*Graph, []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	n := groups * size
	group := make([]int, n)
	members := make([][]int64, groups)
	for i, v := range r.Perm(n) {
		group[v] = i % groups
		members[i%groups] = append(members[i%groups], int64(v))
	}
	var src, dst []int64
	for range 8 * n {
		u := r.Int64N(int64(n))
		v := members[group[u]][r.IntN(size)]
		if r.IntN(20) == 0 {
			v = r.Int64N(int64(n))
		}
		src, dst = append(src, u, v), append(dst, v, u)
	}
	g := expect.Must(New(Data{Nodes: []NodeData{{Count: int64(n)}}, Edges: []EdgeData{{Src: src, Dst: dst}}}))(t)
	return g, group
}

func TestStreamPartitionFindsCommunities(t *testing.T) {
	g, _ := communities(t, 8, 250)
	p, q := expect.Must2(StreamPartition(context.Background(), g, PartitionOptions{Parts: 8}))(t)
	of := make([]int, g.NumNodes())
	largest, nodes := 0, 0
	for i := range p.Parts() {
		largest = max(largest, len(p.Part(i)))
		expect.That(t, slices.IsSorted(p.Part(i)), "part %d is not ascending", i)
		for _, v := range p.Part(i) {
			of[v] = i
			nodes++
		}
	}
	cut := int64(0)
	indices := expect.Must(unified.View[int32](g.Indices()))(t)
	for v := range g.NumNodes() {
		for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
			if of[indices[pos]] != of[v] {
				cut++
			}
		}
	}
	if nodes != 2000 || q.Cut != cut || q.Largest != int64(largest) || q.Balance > 1.031 || q.Edges != g.NumEdges() {
		t.Errorf("%d nodes, cut %d, largest %d; it says %+v", nodes, cut, largest, q)
	}
	// Of random parts 7 of 8 edges are cut; of the communities 1 of 20 that lead anywhere, less an eighth.
	share := float64(cut) / float64(q.Edges)
	expect.That(t, share <= 0.12, "%.3f of the edges are cut", share)
	again, _, err := StreamPartition(context.Background(), g, PartitionOptions{Parts: 8})
	expect.That(t, err == nil && again.String() == p.String(), "the second time it is %v: %v", again, err)
}

func TestPartitionsAreReadAsTheyAreWritten(t *testing.T) {
	text := "11\n0\n9\n10\n8\n11\n1\n2\n3\n4\n5\n6\n7\n"
	p := expect.Must(ReadPartition(strings.NewReader(text)))(t)
	var b strings.Builder
	err := p.Write(&b)
	expect.That(t, err == nil && b.String() == text && p.Parts() == 12 && slices.Equal(p.Part(11), []int64{0, 5}),
		"%q, %v, %d parts, the last is %v", b.String(), err, p.Parts(), p.Part(11))
	for text, says := range map[string]string{"0\nx\n": "line 2", "-1\n": "line 1", "0\n99999999999\n": "line 2",
		"0\n7\n": "more parts than nodes", "0\n\n": "line 2", strings.Repeat("1", 1<<17): "line 1"} {
		expect.Says(t, expect.Err(ReadPartition(strings.NewReader(text))), ErrPartition, says, "%.20q", text)
	}
}

func TestPartitionsThatCannotBeAreRefused(t *testing.T) {
	for _, of := range [][]int32{{-1}, {0, 2}, {0, 3}} {
		expect.Is(t, expect.Err(NewPartition(of, 2)), ErrPartition, "parts %v of 2", of)
	}
	expect.Is(t, expect.Err(NewPartition(nil, 0)), ErrPartition, "no part")
	g, _ := communities(t, 2, 5)
	for _, o := range []PartitionOptions{{}, {Parts: 11}, {Parts: -1}, {Parts: 2, Passes: -1}, {Parts: 2, Slack: -1}} {
		_, _, err := StreamPartition(context.Background(), g, o)
		expect.That(t, errors.Is(err, ErrPartition), "%+v: %v", o, err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	_, _, err := StreamPartition(stopped, g, PartitionOptions{Parts: 2})
	expect.That(t, errors.Is(err, context.Canceled), "stopped: %v", err)
	g.Indptr()[3] = 1 << 40
	_, _, err = StreamPartition(context.Background(), g, PartitionOptions{Parts: 2})
	expect.That(t, errors.Is(err, ErrEdge), "damaged: %v", err)
}
