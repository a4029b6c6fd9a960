package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// givenSeeds are seeds as a door says them: by a name, as --seeds has it, or as arrays.
type givenSeeds struct {
	name   string
	arrays *seedArrays
}

// UnmarshalText takes what --seeds says.
func (s *givenSeeds) UnmarshalText(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		return s.UnmarshalJSON(text)
	}
	s.name = string(text)
	return nil
}

// UnmarshalJSON takes what a configuration says.
func (s *givenSeeds) UnmarshalJSON(text []byte) (err error) {
	s.arrays, err = parseSeedArrays(text)
	return err
}

// seedArrays are seeds that a configuration gives as arrays: nodes or edges, not both. Seeds are in the order of the
// rows.
type seedArrays struct {
	Nodes []nodeArrays `json:"nodes"`
	Edges []edgeArrays `json:"edges"`
}

// nodeArrays are seeds of one node type, of the first where none is named.
type nodeArrays struct {
	Type  string    `json:"type"`
	IDs   *npyArray `json:"ids"`   // [n], or bools: a mask with an entry for each node of the type
	Times *npyArray `json:"times"` // [n]; where IDs are a mask one for each entry, or for each node that it takes
	From  *npyArray `json:"from"`  // first times, likewise
}

// edgeArrays are seeds of one edge type, of the first where none is named.
type edgeArrays struct {
	Type   string    `json:"type"`
	Edges  *npyArray `json:"edges"`  // [2, n]: sources and targets
	Labels *npyArray `json:"labels"` // [n]; 1 where there are times alone
	Times  *npyArray `json:"times"`  // [n]
	From   *npyArray `json:"from"`   // [n]; first times

	Negatives *npyArray `json:"negatives"` // [n, k]: other targets of each edge; -1 for none
}

// npyArray says where an .npy array of whole numbers is: in a file, or in a file that this process has open.
type npyArray struct {
	Path string `json:"path"`
	FD   *int   `json:"fd"`
}

// seedArrayErrorf returns the error of an array of seeds, or of a row where part is empty: ids, times, from, edges,
// labels or negatives.
// key is the type of the row; empty where none is named.
func seedArrayErrorf(key, part, format string, args ...any) error {
	return seedArrayErrorAt(key, part, -1, fmt.Errorf(format, args...))
}

// seedArrayErrorAt returns the error of an element of an array; -1 for none.
func seedArrayErrorAt(key, part string, row int64, err error) error {
	of := option.Wrong("seeds", ": %w", err)
	of.Key, of.Part, of.Row = key, part, row
	return &usage{of}
}

// parseSeedArrays reads what a configuration says of seeds that are arrays.
func parseSeedArrays(text []byte) (a *seedArrays, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, seedArrayErrorf("", "", "%w", err)
	}
	if (a.Nodes == nil) == (a.Edges == nil) {
		return nil, seedArrayErrorf("", "", "must be nodes or edges, one of both")
	}
	return a, nil
}

// seeds reads the arrays, and checks every element.
func (a *seedArrays) seeds(schema *graph.Schema) (graph.Seeds, error) {
	if a.Edges != nil {
		return a.edges(schema)
	}
	var set graph.SeedSet
	var ids []int64
	for i, row := range a.Nodes {
		t := 0
		if row.Type != "" {
			if t = schema.NodeType(row.Type); t < 0 {
				return graph.Seeds{}, seedArrayErrorf(row.Type, "", "%w", noNodeType(row.Type, schema))
			}
		}
		nodes, times, from, err := row.read(schema, t)
		if err != nil {
			return graph.Seeds{}, err
		}
		if i > 0 && len(nodes) > 0 && len(ids) > 0 &&
			((times == nil) != (set.Times == nil) || (from == nil) != (set.From == nil)) {
			return graph.Seeds{}, seedArrayErrorf(row.Type, "times", "all rows have times and first times, or none has")
		}
		set.Types = appendTypes(set.Types, t, len(nodes), len(ids))
		ids, set.Times, set.From = join(ids, nodes), join(set.Times, times), join(set.From, from)
	}
	if len(ids) == 0 {
		return graph.Seeds{}, seedArrayErrorf("", "", "there are none")
	}
	set.IDs = unified.FromSlice(ids)
	return graph.Seeds{Sets: []graph.SeedSet{set}}, nil
}

// appendTypes adds the type of n seeds to those of the seeds before, which are nil as long as all are of type 0.
func appendTypes(types []int32, t, n, before int) []int32 {
	if types == nil && t == 0 {
		return nil
	}
	if types == nil {
		types = make([]int32, before, before+n)
	}
	return append(types, slices.Repeat([]int32{int32(t)}, n)...)
}

// join returns both lists, one after the other; the second itself where the first is empty.
func join(list, more []int64) []int64 {
	if len(list) == 0 {
		return more
	}
	return append(list, more...)
}

// read returns the ids of a row, and their times and first times, if it has any.
func (r *nodeArrays) read(schema *graph.Schema, t int) (ids, times, from []int64, err error) {
	given, err := r.IDs.read(r.Type, "ids", 1)
	if err != nil {
		return nil, nil, nil, err
	}
	nt := &schema.Nodes[t]
	if ids = given.Values; given.Bools {
		if ids, err = r.taken(given.Values, schema, nt); err != nil {
			return nil, nil, nil, err
		}
	}
	for i, id := range ids {
		if err := checkNode(id, nt); err != nil {
			return nil, nil, nil, seedArrayErrorAt(r.Type, "ids", int64(i), err)
		}
	}
	if times, err = r.when("times", r.Times, ids, given); err == nil {
		from, err = r.when("from", r.From, ids, given)
	}
	return ids, times, from, err
}

// when returns the times of a row's seeds, or nil. Those of a mask may be one for each of its entries.
func (r *nodeArrays) when(part string, a *npyArray, ids []int64, given *convert.Integers) ([]int64, error) {
	if a == nil {
		return nil, nil
	}
	when, err := a.read(r.Type, part, 1)
	if err != nil {
		return nil, err
	}
	times := when.Values
	if given.Bools && len(times) == len(given.Values) && len(times) != len(ids) {
		for i, id := range ids {
			times[i] = times[id]
		}
		times = times[:len(ids)]
	}
	if when.Bools || len(times) != len(ids) {
		return nil, seedArrayErrorf(r.Type, part, "must be a whole number for each of %d seeds", len(ids))
	}
	return times, nil
}

// taken returns the nodes that a mask takes.
func (r *nodeArrays) taken(mask []int64, schema *graph.Schema, nt *graph.NodeType) (ids []int64, err error) {
	if r.Type == "" && len(schema.Nodes) > 1 {
		var names []string
		for i := range schema.Nodes[:min(len(schema.Nodes), 20)] {
			names = append(names, schema.Nodes[i].Name)
		}
		return nil, seedArrayErrorf("", "ids", "a mask of nodes of which type? There are %s", strings.Join(names, ", "))
	}
	if int64(len(mask)) != nt.Count {
		return nil, seedArrayErrorf(r.Type, "ids", "a mask of %s entries, where there are %s nodes",
			humanize.Comma(int64(len(mask))), humanize.Comma(nt.Count))
	}
	for i, x := range mask {
		if x != 0 {
			ids = append(ids, int64(i))
		}
	}
	return ids, nil
}

// edges is seeds for edges.
func (a *seedArrays) edges(schema *graph.Schema) (graph.Seeds, error) {
	var set graph.EdgeSet
	var sources, targets, negatives []int64
	find := schema.EdgeTypes()
	for i, row := range a.Edges {
		t, err := 0, error(nil)
		if row.Type != "" {
			if t, err = find(row.Type); err != nil {
				return graph.Seeds{}, seedArrayErrorf(row.Type, "", "%w", err)
			}
		}
		from, to, err := row.ends(schema, t)
		if err != nil {
			return graph.Seeds{}, err
		}
		values, err := row.values(len(from))
		if err != nil {
			return graph.Seeds{}, err
		}
		for k, to := range []*[]int64{&set.Labels, &set.Times, &set.From} {
			if i > 0 && len(from) > 0 && len(sources) > 0 && (values[k] == nil) != (*to == nil) {
				return graph.Seeds{}, seedArrayErrorf(row.Type, "",
					"all edge types have labels, times and first times, or none has")
			}
			*to = join(*to, values[k])
		}
		others, each, err := row.negatives(schema, t, len(from))
		if err != nil {
			return graph.Seeds{}, err
		}
		if i > 0 && each != set.Negated() {
			return graph.Seeds{}, seedArrayErrorf(row.Type, "negatives", "%d an edge, where the first type has %d",
				each, set.Negated())
		}
		negatives = join(negatives, others)
		if each > 0 {
			set.Negatives, err = unified.New(unified.Int64, unified.FromSlice(negatives).Bytes(),
				int64(len(negatives))/each, each)
		}
		if err != nil {
			return graph.Seeds{}, err
		}
		set.Types = appendTypes(set.Types, t, len(from), len(sources))
		sources, targets = join(sources, from), join(targets, to)
	}
	if len(sources) == 0 {
		return graph.Seeds{}, seedArrayErrorf("", "", "there are none")
	}
	set.Sources, set.Targets = unified.FromSlice(sources), unified.FromSlice(targets)
	return graph.Seeds{Edges: []graph.EdgeSet{set}}, nil
}

// ends returns the sources and targets of a row.
func (r *edgeArrays) ends(schema *graph.Schema, t int) (sources, targets []int64, err error) {
	a, err := r.Edges.read(r.Type, "edges", 2)
	if err != nil {
		return nil, nil, err
	}
	if a.Shape[0] != 2 || a.Bools {
		return nil, nil, seedArrayErrorf(r.Type, "edges", "an array of shape %v: must be whole numbers [2, edges], "+
			"sources and targets", a.Shape)
	}
	n := len(a.Values) / 2
	sources, targets = a.Values[:n:n], a.Values[n:]
	src, dst := &schema.Nodes[schema.Edges[t].Src], &schema.Nodes[schema.Edges[t].Dst]
	for i := range sources {
		err := checkNode(sources[i], src)
		if err == nil {
			err = checkNode(targets[i], dst)
		}
		if err != nil {
			return nil, nil, seedArrayErrorAt(r.Type, "edges", int64(i), err)
		}
	}
	return sources, targets, nil
}

// values returns the labels, times and first times of n edges, nil for none.
func (r *edgeArrays) values(n int) (all [3][]int64, err error) {
	for i, from := range []*npyArray{r.Labels, r.Times, r.From} {
		if from == nil {
			continue
		}
		part := []string{"labels", "times", "from"}[i]
		a, err := from.read(r.Type, part, 1)
		if err != nil {
			return all, err
		}
		if len(a.Values) != n {
			return all, seedArrayErrorf(r.Type, part, "must be a whole number for each of %d edges", n)
		}
		all[i] = a.Values
	}
	if all[1] != nil && all[0] == nil {
		all[0] = slices.Repeat([]int64{1}, n)
	}
	return all, nil
}

// negatives returns the other targets of n edges, each as many.
func (r *edgeArrays) negatives(schema *graph.Schema, t, n int) (ids []int64, each int64, err error) {
	if r.Negatives == nil {
		return nil, 0, nil
	}
	a, err := r.Negatives.read(r.Type, "negatives", 2)
	if err != nil {
		return nil, 0, err
	}
	if a.Shape[0] != int64(n) || a.Shape[1] == 0 || a.Bools {
		return nil, 0, seedArrayErrorf(r.Type, "negatives", "an array of shape %v: must be whole numbers [%d, k], "+
			"other targets of each edge, or -1", a.Shape, n)
	}
	for i, id := range a.Values {
		if id == -1 {
			continue
		}
		if err := checkNode(id, &schema.Nodes[schema.Edges[t].Dst]); err != nil {
			return nil, 0, seedArrayErrorAt(r.Type, "negatives", int64(i)/a.Shape[1], err)
		}
	}
	return a.Values, a.Shape[1], nil
}

// read reads the array, which has rank dimensions.
func (a *npyArray) read(key, part string, rank int) (*convert.Integers, error) {
	if a == nil || (a.FD == nil) == (a.Path == "") {
		return nil, seedArrayErrorf(key, part, "an array is a path or an fd, one of both")
	}
	path := a.Path
	if a.FD != nil {
		path = fmt.Sprintf("/proc/self/fd/%d", *a.FD)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to
	if err != nil {
		if at := (*fs.PathError)(nil); a.FD != nil && errors.As(err, &at) {
			err = fmt.Errorf("file descriptor %d: %w", *a.FD, at.Err)
		}
		return nil, seedArrayErrorf(key, part, "%w", err)
	}
	defer f.Close()
	v, err := convert.ReadIntegers(f)
	if err != nil {
		return nil, seedArrayErrorf(key, part, "%w", err)
	}
	if len(v.Shape) != rank {
		return nil, seedArrayErrorf(key, part, "an array of shape %v: must have %d dimensions", v.Shape, rank)
	}
	return v, nil
}
