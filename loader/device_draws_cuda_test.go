//go:build cuda

package loader_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// oneFor returns one of several values.
func oneFor[T any](c *deviceCase, of ...T) T { return of[c.r.IntN(len(of))] }

// drawnSamplers make a sampler of each name that devices have, with options that are drawn. What it has in common with
// Neighbor is that of the case.
var drawnSamplers = map[string]func(c *deviceCase, n sampling.Neighbor) sampling.Sampler{
	"neighbor": func(_ *deviceCase, n sampling.Neighbor) sampling.Sampler { return n },
	"temporal": func(_ *deviceCase, n sampling.Neighbor) sampling.Sampler { return n },
	"labor": func(c *deviceCase, n sampling.Neighbor) sampling.Sampler {
		return sampling.Labor{Fanouts: n.Fanouts, PerType: n.PerType, Frontier: n.Frontier,
			Poisson: oneFor(c, false, true), LayerDependent: oneFor(c, false, true),
			BatchDependency: oneFor(c, 0, 1, 2, 5)}
	},
	"fastgcn": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.FastGCN{Nodes: oneFor(c, []int{20, 9}, []int{3}, []int{sampling.All, 4}, []int{2, 0, 5}),
			Weight: oneFor(c, "", "w")}
	},
	"ladies": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Ladies{Nodes: oneFor(c, []int{20, 9}, []int{3}, []int{sampling.All, 4}, []int{2, 0, 5}),
			Weight: oneFor(c, "", "w")}
	},
	"hgt": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		last := c.graph.Schema().Nodes[len(c.graph.Schema().Nodes)-1].Name
		return sampling.HGT{Nodes: oneFor(c, []int{20, 9}, []int{3}, []int{4, sampling.All}, []int{2, 0, 5}),
			PerType: oneFor(c, nil, map[string][]int{last: {5, 1}}, map[string][]int{last: {0, 7}})}
	},
	"ppr": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.PPR{Neighbors: oneFor(c, 1, 5, 60), Alpha: oneFor(c, 0, 0.15, 0.5),
			Epsilon: oneFor(c, 0, 1e-2, 1e-3), As: oneFor(c, "", c.ownType())}
	},
	"shadow": func(_ *deviceCase, n sampling.Neighbor) sampling.Sampler {
		return sampling.Shadow{Fanouts: n.Fanouts, PerType: n.PerType, Replace: n.Replace}
	},
	"walk": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Walk{Length: oneFor(c, 1, 5, 40), PerSeed: oneFor(c, 0, 2, 3), Restart: oneFor(c, 0, 0.1, 0.5),
			Stop: oneFor(c, 0, 0.1, 0.3), Metapath: c.metapath(), Edges: oneFor(c, false, true)}
	},
	"node2vec": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Node2Vec{Length: oneFor(c, 1, 4, 9), PerSeed: oneFor(c, 0, 2), P: oneFor(c, 0.25, 1, 4.),
			Q: oneFor(c, 0.5, 1, 3.), Edges: oneFor(c, false, true)}
	},
	"pinsage": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.PinSage{Neighbors: oneFor(c, 1, 4, 50), Hops: oneFor(c, 1, 2, 3), Walks: oneFor(c, 1, 6, 40),
			Length: oneFor(c, 1, 3), Restart: oneFor(c, 0, 0.2), Stop: oneFor(c, 0, 0.2), Metapath: c.metapath(),
			As: oneFor(c, "", c.ownType())}
	},
	"induced": func(*deviceCase, sampling.Neighbor) sampling.Sampler { return sampling.Induced{} },
	"saint-node": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Saint{Kind: sampling.SaintNodes, Budget: oneFor(c, 1, 30, 90), Steps: oneFor(c, 0, 4),
			Coverage: oneFor(c, 0, 3)}
	},
	"saint-edge": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Saint{Kind: sampling.SaintEdges, Budget: oneFor(c, 1, 20, 70), Steps: oneFor(c, 0, 4),
			Coverage: oneFor(c, 0, 3)}
	},
	"saint-walk": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		return sampling.Saint{Kind: sampling.SaintWalks, Budget: oneFor(c, 1, 9, 40), Length: oneFor(c, 0, 1, 3),
			Steps: oneFor(c, 0, 4), Coverage: oneFor(c, 0, 3)}
	},
	"cluster": func(c *deviceCase, _ sampling.Neighbor) sampling.Sampler {
		of := make([]int32, c.graph.NumNodes())
		for v := range of {
			of[v] = int32(v * 7 % 5)
		}
		p, err := graph.NewPartition(of, 5)
		if err != nil {
			panic(err)
		}
		return sampling.Cluster{Partition: oneFor(c, nil, p), PerBatch: oneFor(c, 0, 1, 2, 3)}
	},
}

// ownType is an edge type whose source and target are the first type of nodes, "" where there is none.
func (c *deviceCase) ownType() string {
	s := c.graph.Schema()
	for i := range s.Edges {
		if e := &s.Edges[i]; e.Src == 0 && e.Dst == 0 {
			return e.String()
		}
	}
	return ""
}

// metapath leads from the first type of nodes back to it, or is nil. Of two types, where the graph has several.
func (c *deviceCase) metapath() []string {
	s := c.graph.Schema()
	var all [][]string
	for i := range s.Edges {
		for j := range s.Edges {
			if one, two := &s.Edges[i], &s.Edges[j]; one.Dst == 0 && two.Dst == one.Src && two.Src == 0 {
				all = append(all, []string{one.String(), two.String()})
			}
		}
	}
	return oneFor(c, nil, oneFor(c, all...))
}

// toItself leaves out edge types that cannot be followed backwards: those between two types of nodes.
func (c *deviceCase) toItself(of map[string][]int) map[string][]int {
	s, all := c.graph.Schema(), map[string][]int{}
	maps.Copy(all, of)
	for i := range s.Edges {
		if s.Edges[i].Src != s.Edges[i].Dst {
			all[s.Edges[i].String()] = []int{0}
		}
	}
	return all
}

// samplerFactor puts another sampler in place of the Neighbor so far, or turns options on that few others go with.
func samplerFactor() factor {
	as := []func(*deviceCase, sampling.Neighbor) sampling.Sampler{drawnSamplers["neighbor"], drawnSamplers["neighbor"]}
	for _, set := range []func(*deviceCase, *sampling.Neighbor){
		func(c *deviceCase, n *sampling.Neighbor) {
			n.Direction, n.PerType = sampling.Both, c.toItself(n.PerType)
		},
		func(c *deviceCase, n *sampling.Neighbor) {
			n.Direction, n.PerType = sampling.Out, c.toItself(n.PerType)
		},
		func(_ *deviceCase, n *sampling.Neighbor) { n.Induced, n.Time = true, sampling.Temporal{} },
		func(c *deviceCase, n *sampling.Neighbor) {
			*n = sampling.Neighbor{Fanouts: oneFor(c, []int{5, 3}, []int{sampling.All, 2}, []int{32}), Together: true,
				Replace: n.Replace, Disjoint: n.Disjoint, Frontier: n.Frontier}
		},
	} {
		as = append(as, func(c *deviceCase, n sampling.Neighbor) sampling.Sampler {
			set(c, &n)
			return n
		})
	}
	for i := range samplers.All {
		if name := samplers.All[i].Name; samplers.All[i].OnDevice() && name != "neighbor" && name != "temporal" {
			as = append(as, drawnSamplers[name])
		}
	}
	for _, of := range []func(*deviceCase, sampling.Neighbor) sampling.Sampler{
		func(_ *deviceCase, n sampling.Neighbor) sampling.Sampler {
			n.Frontier = sampling.NewNodes
			return n
		},
		func(c *deviceCase, n sampling.Neighbor) sampling.Sampler {
			s := drawnSamplers["pinsage"](c, n).(sampling.PinSage)
			s.Hops = 1
			return s
		},
	} {
		as = append(as, func(c *deviceCase, n sampling.Neighbor) sampling.Sampler {
			return sampling.Sequence{Of: of(c, n), Length: oneFor(c, 1, 6, 40), SeedFirst: oneFor(c, false, true)}
		})
	}
	return factor{"sampler", len(as), func(c *deviceCase, i int) { c.opt.Sampler = as[i](c, c.sampler()) }}
}

// settle takes back what does not go with the sampler or with the seeds.
func (c *deviceCase) settle() {
	said, err := c.opt.Sampler.Describe(c.graph.Schema(), 1)
	path, of := false, c.opt.Sampler
	sequence, rows := of.(sampling.Sequence)
	if rows {
		of, c.opt.Columns.EdgePos, c.opt.Columns.Edges = sequence.Of, false, nil
	}
	switch s := of.(type) {
	case sampling.PinSage, sampling.PPR:
		c.opt.Columns.EdgePos, c.opt.Columns.Edges, path = false, nil, true
	case sampling.Walk:
		path = len(s.Metapath) > 0
	}
	switch {
	case err == nil && said.Items != nil:
		c.opt.Seeds, c.timedSeeds, c.allEdges = loader.SeedSource{}, false, false
	case path && len(c.graph.Schema().Nodes) > 1: // seeds of other types are refused
		c.opt.Seeds = loader.GivenSeeds(graph.NodeIDs([]int64{3, 1, 0, 5, 3}))
		c.timedSeeds, c.allEdges = false, false
	case err == nil && said.From && c.timedSeeds:
		c.opt.Seeds = nodesWithTimes(true)
	}
	if !strings.HasSuffix(c.opt.Seeds.String(), "edges") {
		c.opt.Links = loader.LinkOptions{}
	} else if !said.Excludes {
		c.opt.Links.ExcludeSeeds = loader.ExcludeNone
	}
	if c.timedLinks && c.allEdges {
		c.opt.Links.Time = "t"
	}
	if timed := c.timedSeeds || c.opt.Links.Time != ""; !timed {
		c.opt.SameTime, c.opt.TimeOrder = 0, false
	} else if n, ok := of.(sampling.Neighbor); ok {
		n.Time.AsOf = nil // each seed is as of its own time
		if c.opt.Sampler = n; rows {
			sequence.Of = n
			c.opt.Sampler = sequence
		}
	}
	c.opt.TimeOrder = c.opt.TimeOrder && !c.opt.Shuffle
	c.opt.Times = loader.IgnoreTimes // most samplers drawn do not read them
}

// Every sampler that devices have is drawn, and every option of it, in ways that its graph allows.
func TestDevicesAreGivenEveryOptionOfEverySampler(t *testing.T) {
	factors := deviceFactors(t)
	seen, r := map[string]bool{}, rand.New(rand.NewPCG(20261127, 0))
	for range 3000 {
		c := newDeviceCase(r.Uint64())
		for _, f := range factors {
			f.apply(c, r.IntN(f.values))
		}
		if _, err := c.opt.Sampler.Describe(c.graph.Schema(), 1); err == nil {
			name, of := samplers.Of(c.opt.Sampler).Name, reflect.ValueOf(c.opt.Sampler)
			if k, is := c.opt.Sampler.(sampling.Sequence); is {
				noteOptions(seen, name+".Sequence", of)
				of = reflect.ValueOf(k.Of)
			}
			noteOptions(seen, name, of)
		}
	}
	var missing []string
	for i := range samplers.All {
		k := &samplers.All[i]
		if !k.OnDevice() {
			continue
		}
		for i, o := range k.Options() {
			if field := k.Fields()[i]; strings.HasPrefix(field, "Sequence.") {
				o.Path = field
			}
			for _, path := range []string{o.Path, o.Path + "PerType", "PerType"} {
				if was, known := seen[k.Name+"."+path]; known && !was {
					missing = append(missing, k.Name+"."+path)
				}
			}
			_, known := seen[k.Name+"."+o.Path]
			expect.That(t, known, "%s.%s is not a field of what was drawn", k.Name, o.Path)
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	want := []string{"temporal.Together"} // for the CPU alone
	expect.That(t, slices.Equal(missing, want), "never drawn: %q, want %q", missing, want)
}

// noteOptions notes which fields were other than zero.
func noteOptions(seen map[string]bool, name string, v reflect.Value) {
	for i := range v.NumField() {
		field := name + "." + v.Type().Field(i).Name
		seen[field] = seen[field] || !v.Field(i).IsZero()
		if v.Field(i).Kind() == reflect.Struct {
			noteOptions(seen, field, v.Field(i))
		}
	}
}
