package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/sampling"
)

// samplerRow is a sampler as the command line knows it.
type samplerRow struct {
	name  string
	about string // what it is, in a few words
	flags string // those of samplerFlags that it takes
	make  func(*samplerFlags) sampling.Sampler
}

// samplers are all samplers. A new one takes a line here. Flags that it alone has go into samplerFlags, each with its
// default. Tests then name what is missing: a case in TestSamplersThroughEveryDoor, the flags in docs/cli.md and in
// integrations/python/src/khop/options.py, and a case in its test_samplers.py.
var samplers = []samplerRow{
	{"neighbor", "neighbours, uniformly or by weight", "fanouts frontier replace disjoint weight mask share " +
		"together direction induced", (*samplerFlags).neighbor},
	{"temporal", "neighbours of the past", "fanouts frontier replace disjoint weight mask share together direction " +
		"time node-time time-rules window recent half-life chain as-of", (*samplerFlags).temporal},
	{"labor", "neighbours that destinations share, LABOR-0",
		"fanouts frontier poisson layer-dependent batch-dependency", (*samplerFlags).labor},
	{"fastgcn", "nodes of a hop from the whole graph", "layer-nodes weight", (*samplerFlags).fastgcn},
	{"ladies", "nodes of a hop from all its in-neighbours", "layer-nodes weight", (*samplerFlags).ladies},
	{"hgt", "the subgraph between so many nodes of each type", "layer-nodes", (*samplerFlags).hgt},
	{"walk", "random walks", "length walks restart stop metapath walk-edges", (*samplerFlags).walk},
	{"shadow", "a subgraph of its own for each seed", "fanouts replace", (*samplerFlags).shadow},
	{"induced", "the subgraph between the seeds", "", (*samplerFlags).induced},
	{"saint-node", "subgraphs of drawn nodes: GraphSAINT", "budget steps coverage", (*samplerFlags).saintNode},
	{"saint-edge", "subgraphs of drawn edges", "budget steps coverage", (*samplerFlags).saintEdge},
	{"saint-walk", "subgraphs of walks", "budget length steps coverage", (*samplerFlags).saintWalk},
	{"cluster", "parts of a partition: Cluster-GCN", "partition clusters", (*samplerFlags).cluster},
	{"full", "all nodes with all in-edges, in ranges", "work", (*samplerFlags).full},
	{"pinsage", "neighbours that walks visit most", "neighbors hops walks length restart stop metapath edge-type",
		(*samplerFlags).pinsage},
	{"ppr", "neighbours of highest PageRank", "neighbors alpha epsilon edge-type", (*samplerFlags).ppr},
	{"node2vec", "walks of second order", "length walks p q walk-edges", (*samplerFlags).node2vec},
}

// samplerFlags are the flags of all samplers. The line of a sampler says which it takes; others are an error.
type samplerFlags struct {
	Sampler  string            `enum:"${samplers}" default:"neighbor" help:"How to sample: ${samplers_help}."`
	Fanouts  fanouts           `default:"15,10,5" help:"${fanouts_help}"`
	Frontier sampling.Frontier `enum:"all,new" default:"all" help:"What a hop expands: all nodes so far, or new ones."`
	Replace  bool              `help:"Sample with replacement."`
	Disjoint bool              `help:"Keep trees apart: a node is there once for each seed that reaches it."`

	neighborFlags `embed:""`
	laborFlags    `embed:""`
	walkFlags     `embed:""`
	subgraphFlags `embed:""`
	layerFlags    `embed:""`
}

// fanouts is the value of --fanouts.
type fanouts struct {
	all     []int
	perType map[string][]int
}

// UnmarshalText reads fan-outs as package sampling does.
func (f *fanouts) UnmarshalText(text []byte) (err error) {
	f.all, f.perType, err = sampling.ParseFanouts(string(text))
	return err
}

// samplerHelp is what help says of the table.
func samplerHelp() kong.Vars {
	var names, about []string
	for _, s := range samplers {
		names, about = append(names, s.name), append(about, s.name+" ("+s.about+")")
	}
	return kong.Vars{"samplers": strings.Join(names, ","), "samplers_help": strings.Join(about, ", "),
		"time_rules_help": timeRulesHelp, "layer_nodes_help": layerNodesHelp}
}

// samplersThatTake names the samplers that take a flag; none for a flag that is not of samplers.
func samplersThatTake(flag string) (names []string) {
	for _, s := range samplers {
		if slices.Contains(strings.Fields(s.flags), flag) {
			names = append(names, s.name)
		}
	}
	return names
}

// nameSamplers says in the help of each flag of some samplers which they are.
func nameSamplers(k *kong.Kong) {
	takers := map[string][]string{}
	for _, s := range samplers {
		for _, flag := range strings.Fields(s.flags) {
			takers[flag] = append(takers[flag], s.name)
		}
	}
	for _, command := range k.Model.Children {
		for _, f := range command.Flags {
			if list := takers[f.Name]; list != nil && len(list) < len(samplers) {
				f.Help += " For " + strings.Join(list, ", ") + "."
			}
		}
	}
}

// row returns the line of the chosen sampler.
func (f *samplerFlags) row() *samplerRow {
	return &samplers[slices.IndexFunc(samplers, func(s samplerRow) bool { return s.name == f.Sampler })]
}

// sampler returns the sampler that the flags describe.
func (f *samplerFlags) sampler() sampling.Sampler { return f.row().make(f) }

// AfterApply refuses flags that the chosen sampler does not take. kong calls it.
func (f *samplerFlags) AfterApply(line *kong.Context) error {
	for _, at := range line.Path {
		if at.Flag == nil {
			continue
		}
		takers := samplersThatTake(at.Flag.Name)
		if takers == nil || slices.Contains(takers, f.Sampler) {
			continue
		}
		return fmt.Errorf("--%s is not for --sampler %s, but for: %s; %s takes: --%s", at.Flag.Name, f.Sampler,
			strings.Join(takers, ", "), f.Sampler, strings.Join(strings.Fields(f.row().flags), ", --"))
	}
	return f.checkLayers()
}

type samplersCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// samplersResult is what "khop samplers --json" prints. Scripts rely on the names.
type samplersResult struct {
	Samplers []samplerRecord `json:"samplers"`
}

type samplerRecord struct {
	Name    string          `json:"name"`
	About   string          `json:"about"`
	Device  bool            `json:"device"` // runs on CUDA devices, too
	Options []samplerOption `json:"options"`
}

type samplerOption struct {
	Name    string `json:"name"`
	Default string `json:"default"` // "" where there is none, as of a switch
	Switch  bool   `json:"switch"`  // takes no value
	CPU     bool   `json:"cpu"`     // makes batches of a sampler that runs on devices be made on the CPU
	Help    string `json:"help"`
}

// cpuFlags are the flags with which a sampler that runs on CUDA devices does not.
var cpuFlags = []string{"together", "direction", "induced"}

// onDevice says that a sampler runs on CUDA devices, without cpuFlags.
func (s *samplerRow) onDevice() bool {
	_, ok := s.make(&samplerFlags{}).(sampling.DeviceSampler)
	return ok
}

// Run prints the table of samplers.
func (c *samplersCmd) Run(env *environment) error {
	flags := map[string]*kong.Flag{}
	parser, err := newParser(&commands{}, env.stdout, env.stderr)
	if err != nil {
		return err
	}
	for _, command := range parser.Model.Children {
		for _, f := range command.Flags {
			flags[f.Name] = f
		}
	}
	result := samplersResult{}
	for _, s := range samplers {
		record := samplerRecord{Name: s.name, About: s.about, Device: s.onDevice(), Options: []samplerOption{}}
		for _, name := range strings.Fields(s.flags) {
			f := flags[name]
			record.Options = append(record.Options, samplerOption{name, f.Default, f.IsBool(),
				record.Device && slices.Contains(cpuFlags, name), f.Help})
		}
		result.Samplers = append(result.Samplers, record)
	}
	if c.JSON {
		return env.printJSON(result)
	}
	for _, s := range result.Samplers {
		where := "on the CPU"
		if s.Device {
			where += " and on CUDA devices"
		}
		fmt.Fprintf(env.stdout, "%s: %s; %s\n", s.Name, s.About, where)
		t := newTable(env.stdout)
		for _, o := range s.Options {
			flag := "  --" + o.Name
			if o.Default != "" {
				flag += "=" + o.Default
			}
			if o.CPU {
				o.Help += " On the CPU alone."
			}
			t.row(flag, o.Help)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}
