package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// listedSeeds are what stands before @FILE, each at the place of how many times a line ends with.
var listedSeeds = []string{"", "timed", "window"}

// onRequest as --seeds is seeds that come with each request.
const onRequest = "on-request"

// seedSource turns what --seeds and --split say into a loader's seeds. Without --seeds it takes all nodes of a dataset
// that has no train split, and tells the user so.
func (env *environment) seedSource(name string, split int, src loader.Source) (loader.SeedSource, error) {
	g := src.Graph()
	list, each := strings.CutPrefix(name, "each:")
	if kind, file, ok := strings.Cut(list, "@"); ok && slices.Contains(listedSeeds, kind) {
		times := slices.Index(listedSeeds, kind)
		read := func() (graph.Seeds, error) { return env.readSeedFile(file, g.Schema(), times) }
		seeds, err := read()
		if each {
			return loader.EachEpoch(seeds, func(uint32) (graph.Seeds, error) { return read() }), err
		}
		return loader.GivenSeeds(seeds), err
	}
	if seeds, ok, err := env.edgeSeeds(name, g.Schema()); ok {
		return seeds, err
	}
	if list, ok := strings.CutPrefix(name, "all:"); ok {
		types := strings.Split(list, ",")
		for _, t := range types {
			if g.Schema().NodeType(t) < 0 {
				return loader.SeedSource{}, wrongOption("seeds", " %s: %w", name, noNodeType(t, g.Schema()))
			}
		}
		return loader.AllNodes(types...), nil
	}
	train := func(s graph.Split) bool { return s.Name == "train" }
	switch {
	case name == "all":
		return loader.AllNodes(), nil
	case name == onRequest:
		return loader.OnRequest(), nil
	case name == "" && !slices.ContainsFunc(g.Splits(), train):
		env.note("the dataset has no train split: the seeds are all nodes")
		return loader.AllNodes(), nil
	case name == "":
		name = "train"
	}
	name = strings.TrimPrefix(name, "task:")
	if _, err := src.Split(name, split); err != nil {
		return loader.SeedSource{}, wrongOption("seeds", " %s %s %d: %w; or take all, all:TYPE, @FILE, timed@FILE or "+
			"window@FILE", name, option.Name{Option: "split"}, split, err)
	}
	return loader.SplitIndex(name, split), nil
}

// noNodeType is the error of a node type that is not there.
func noNodeType(name string, s *graph.Schema) error {
	var names []string
	for i, t := range s.Nodes {
		if i == 20 {
			names = append(names, "...")
			break
		}
		names = append(names, t.Name)
	}
	return fmt.Errorf("no node type %q; there are: %s", name, strings.Join(names, ", "))
}

func (env *environment) readSeedFile(path string, schema *graph.Schema, times int) (graph.Seeds, error) {
	f, err := convert.OpenText(path)
	if err != nil {
		return graph.Seeds{}, option.Wrong("seeds", " @%s: %w", path, err)
	}
	defer f.Close()
	seeds, err := readSeeds(f, &env.memory.Ledger, schema, times)
	return seeds, inFile(path, err)
}

// inFile says in which file an error happened, unless it says so itself.
func inFile(path string, err error) error {
	if at := (*formats.Error)(nil); err != nil && !errors.As(err, &at) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}

// linesAtATime is for how many lines eachLine counts memory at a time.
const linesAtATime = 1 << 12

// eachLine calls f for the lines that hold something besides a comment, trimmed, and numbers the line of an error. The
// memory that f appends to lists is counted until the end: this number of bytes a line, and half as much again while
// lists grow.
func eachLine(r io.Reader, memory *pinned.Ledger, bytes int64, f func(text string) error) error {
	lines := bufio.NewScanner(r)
	number, taken := 0, int64(0)
	defer func() { memory.Give(pinned.Scratch, taken) }()
	for lines.Scan() {
		if number%linesAtATime == 0 {
			more := 5 * bytes * linesAtATime / 2
			if err := memory.Take(pinned.Scratch, more); err != nil {
				return fmt.Errorf("line %d: %w", number+1, err)
			}
			taken += more
		}
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if err := f(text); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	return nil
}

// checkNode refuses the id of a node that its type does not have.
func checkNode(id int64, nt *graph.NodeType) error {
	if id < 0 || id >= nt.Count {
		return fmt.Errorf("%w: node %d is not in 0 .. %s, the nodes of type %q", graph.ErrSeed, id,
			humanize.Comma(nt.Count-1), nt.Name)
	}
	return nil
}

// errSeedFile is returned for an invalid list of seeds.
var errSeedFile = errors.New("not a list of seeds")

// readSeeds reads one node a line: its id, or on graphs with several node types "TYPE ID". Empty lines and what follows
// a # are ignored. The seed's time comes last, or that and its first time. Seeds are in the order of the lines, repeats
// allowed. Its cost does not depend on that order.
func readSeeds(r io.Reader, memory *pinned.Ledger, schema *graph.Schema, times int) (graph.Seeds, error) {
	var ids []int64
	var when [2][]int64 // times, first times
	var types []int32   // from the first node of another type than 0 on
	names := make(map[string]int32, len(schema.Nodes))
	for t := range schema.Nodes {
		names[schema.Nodes[t].Name] = int32(t)
	}
	bytes := 8 * (1 + int64(times))
	if len(names) > 1 {
		bytes += 4
	}
	err := eachLine(r, memory, bytes, func(text string) error {
		for i := times - 1; i >= 0; i-- {
			cut := strings.LastIndexAny(text, " \t")
			time, err := strconv.ParseInt(text[cut+1:], 10, 64)
			if cut < 0 || err != nil {
				return fmt.Errorf("%w: %q: a line ends with the %s of its node, a whole number", errSeedFile, text,
					[...]string{"time", "first time"}[i])
			}
			when[i], text = append(when[i], time), strings.TrimSpace(text[:cut])
		}
		t, id, err := readSeed(text, schema, names)
		if err != nil {
			return err
		}
		if t != 0 && types == nil {
			types = make([]int32, len(ids), 2*len(ids)+1)
		}
		if ids = append(ids, id); types != nil {
			types = append(types, t)
		}
		return nil
	})
	if err != nil {
		return graph.Seeds{}, err
	}
	if len(ids) == 0 {
		return graph.Seeds{}, fmt.Errorf("%w: no node in it", errSeedFile)
	}
	seeds := graph.NodeIDs(ids)
	seeds.Sets[0].Types, seeds.Sets[0].Times, seeds.Sets[0].From = types, when[0], when[1]
	return seeds, nil
}

func readSeed(text string, schema *graph.Schema, names map[string]int32) (nodeType int32, id int64, err error) {
	number := text
	if cut := strings.LastIndexAny(text, " \t"); cut >= 0 {
		name := strings.TrimSpace(text[:cut])
		number = text[cut+1:]
		var known bool
		if nodeType, known = names[name]; !known {
			return 0, 0, fmt.Errorf("%w: a line is a node id, or a node type and an id: %w", errSeedFile,
				noNodeType(name, schema))
		}
	}
	if id, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%w: %q is not a node id", errSeedFile, number)
	}
	return nodeType, id, checkNode(id, &schema.Nodes[nodeType])
}
