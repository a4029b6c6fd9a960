package arrays

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// linkNames are the names of arrays of links, as "khop export" writes them: "link_train_source", "link_val_1_label".
var linkNames = regexp.MustCompile(`^link_(.+?)(?:_(\d{1,4}))?_(source|target|label)$`)

// links takes the arrays of links: both ends, and labels where there are some. An end without the other is left.
func (d *Describer) links() error {
	for _, name := range d.Set.Names() {
		m := linkNames.FindStringSubmatch(name)
		if m == nil || m[3] != "source" || d.of == ofNode {
			continue
		}
		set := name[:len(name)-len("source")]
		if !slices.Contains(d.Set.Names(), set+"target") {
			continue
		}
		k := source.Link{Name: m[1]}
		k.Index, _ = strconv.Atoi(m[2]) // 0 where there is none
		for i, list := range []*[]int64{&k.Src, &k.Dst, &k.Labels} {
			end := []string{"source", "target", "label"}[i]
			if end == "label" && !slices.Contains(d.Set.Names(), set+end) {
				continue
			}
			h, err := d.header(set + end)
			if err != nil {
				return err
			}
			if len(h.Shape) != 1 {
				return d.fail(set+end, -1, "is %v, not a list of numbers", &h)
			}
			if *list, err = d.ints(set + end); err != nil {
				return err
			}
			d.Used[set+end] = true
		}
		if len(k.Src) != len(k.Dst) || k.Labels != nil && len(k.Labels) != len(k.Src) {
			return d.fail(name, -1, "there are %d sources, %d targets and %d labels", len(k.Src), len(k.Dst),
				len(k.Labels))
		}
		if d.of != ofEdge { // of these the nodes are counted later
			if err := checkLink(d.Graph, &k); err != nil {
				return d.fail(name, -1, "%w", err)
			}
		}
		d.Graph.Links = append(d.Graph.Links, k)
	}
	return nil
}

// checkLink refuses links between nodes that are not there.
func checkLink(g *source.Graph, k *source.Link) error {
	for j := range k.Src {
		t := &g.Types[source.TypeAt(k.Types, j)]
		from, to := g.Nodes[t.Source].Count, g.Nodes[t.Target].Count
		if u, v := k.Src[j], k.Dst[j]; u < 0 || u >= from || v < 0 || v >= to {
			return fmt.Errorf("links %q %d: %d to %d is not between %d and %d nodes", k.Name, k.Index, u, v, from, to)
		}
	}
	return nil
}

// joinLinks adds links of an edge type to those of a graph, of which each has one list for all types.
func joinLinks(g *source.Graph, edgeType int, links []source.Link) {
	for _, k := range links {
		at := slices.IndexFunc(g.Links, func(o source.Link) bool { return o.Name == k.Name && o.Index == k.Index })
		if at < 0 {
			at = len(g.Links)
			g.Links = append(g.Links, source.Link{Name: k.Name, Index: k.Index})
		}
		to := &g.Links[at]
		if k.Labels != nil || to.Labels != nil { // those that have none are there
			to.Labels = append(atLeast(to.Labels, len(to.Src)), atLeast(k.Labels, len(k.Src))...)
		}
		to.Src, to.Dst = append(to.Src, k.Src...), append(to.Dst, k.Dst...)
		for range k.Src {
			to.Types = append(to.Types, int64(edgeType))
		}
	}
}

// atLeast returns labels, or as many ones where there are none.
func atLeast(labels []int64, n int) []int64 {
	if labels == nil {
		labels = slices.Repeat([]int64{1}, n)
	}
	return labels
}
