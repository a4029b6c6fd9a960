// Package samplers has the table of samplers: the names by which every door calls them. The options of each are the
// tags of its struct in package sampling.
package samplers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/sampling"
)

// Kind is a sampler as doors know it.
type Kind struct {
	Name  string
	About string // what it is, in a few words
	bare  sampling.Sampler
	Why   string // it runs on the CPU alone; "" where it runs on devices
}

// All are all samplers. A new one takes a line here; its options are those of its struct. The first is the default.
var All = []Kind{
	{"neighbor", "neighbours, uniformly or by weight", sampling.Neighbor{}, ""},
	{"temporal", "neighbours before the time of each seed", sampling.Neighbor{}, ""},
	{"labor", "neighbours that destinations share, for smaller batches (LABOR-0)", sampling.Labor{}, ""},
	{"fastgcn", "nodes per hop, drawn from the whole graph (FastGCN)", sampling.FastGCN{}, ""},
	{"ladies", "nodes per hop, drawn from the in-neighbours of the hop before (LADIES)", sampling.Ladies{}, ""},
	{"hgt", "the subgraph between a number of nodes of each type (HGT)", sampling.HGT{}, ""},
	{"walk", "random walks", sampling.Walk{}, ""},
	{"shadow", "a separate subgraph for each seed (ShaDow)", sampling.Shadow{}, ""},
	{"induced", "the subgraph between the seeds", sampling.Induced{}, ""},
	{"saint-node", "the subgraph between drawn nodes (GraphSAINT)", sampling.Saint{Kind: sampling.SaintNodes}, ""},
	{"saint-edge", "the subgraph between the ends of drawn edges", sampling.Saint{Kind: sampling.SaintEdges}, ""},
	{"saint-walk", "the subgraph between the nodes of walks", sampling.Saint{Kind: sampling.SaintWalks}, ""},
	{"cluster", "parts of a partition (Cluster-GCN)", sampling.Cluster{}, ""},
	{"full", "all nodes with all in-edges, by ranges", sampling.Full{}, "rows take longer: docs/results/gpu.md"},
	{"pinsage", "the neighbours that walks visit most (PinSAGE)", sampling.PinSage{}, ""},
	{"ppr", "neighbours of highest PageRank", sampling.PPR{}, "pushes wait for each other: docs/results/gpu.md"},
	{"node2vec", "walks of second order", sampling.Node2Vec{}, ""},
}

// Names returns the names of all samplers.
func Names() (names []string) {
	for i := range All {
		names = append(names, All[i].Name)
	}
	return names
}

// Named returns the sampler of a name.
func Named(name string) (*Kind, error) {
	i := slices.IndexFunc(All, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no sampler %q; there are: %s", name, strings.Join(Names(), ", "))
	}
	return &All[i], nil
}

// Of returns the kind of a sampler, of sequences that of the sampler whose nodes they have; nil for one that is not in
// the table.
func Of(s sampling.Sampler) *Kind {
	name := ""
	if k, is := s.(sampling.Sequence); is {
		s = k.Of
	}
	switch s := s.(type) {
	case sampling.Saint:
		name = "saint-" + s.Kind.String()
	case sampling.Neighbor:
		if !reflect.ValueOf(s.Time).IsZero() {
			name = "temporal"
		}
	}
	for i := range All {
		if reflect.TypeOf(All[i].bare) == reflect.TypeOf(s) && (name == "" || name == All[i].Name) {
			return &All[i]
		}
	}
	return nil
}

// Struct names the struct of package sampling.
func (k *Kind) Struct() string { return reflect.TypeOf(k.bare).Name() }

// Options returns the options that the sampler takes, and those of sequences of its nodes.
func (k *Kind) Options() []option.Option { return slices.Concat(options()[k.Name], k.Sequences()) }

// Fields returns where each of Options is in Go: the struct of package sampling, and the path of the field.
func (k *Kind) Fields() (names []string) {
	for _, o := range options()[k.Name] {
		names = append(names, k.Struct()+"."+o.Path)
	}
	for _, o := range k.Sequences() {
		names = append(names, "Sequence."+o.Path)
	}
	return names
}

// options has the options of each sampler by its name.
var options = sync.OnceValue(func() map[string][]option.Option {
	of, all := map[string][]option.Option{}, []option.Option(nil)
	for _, k := range All {
		all = append(all, given.Of(k.bare)...)
	}
	for _, k := range All {
		of[k.Name] = k.takes(given.Complete(given.Of(k.bare), all))
	}
	return of
})

// takes returns those of some options that the sampler takes.
func (k *Kind) takes(some []option.Option) []option.Option {
	return slices.DeleteFunc(slices.Clone(some), func(o option.Option) bool { return !o.Is(k.Name) })
}

// Sequences returns the options of sequences; none for a sampler that has none.
func (k *Kind) Sequences() []option.Option { return k.takes(given.Of(sampling.Sequence{})) }

// Document returns the options of a sampler of this kind that are not zero, or of sequences of one, as the values of a
// JSON object.
func (k *Kind) Document(s sampling.Sampler) map[string]any {
	d := map[string]any{}
	if of, is := s.(sampling.Sequence); is {
		d, s = given.Document(of, k.Sequences()), of.Of
	}
	maps.Copy(d, given.Document(s, options()[k.Name]))
	return d
}

// OnDevice says that the sampler runs on CUDA devices.
func (k *Kind) OnDevice() bool {
	_, ok := k.bare.(sampling.DeviceSampler)
	return ok
}

// Make returns the sampler with the given options, and others at their defaults.
func (k *Kind) Make(said given.Values) (sampling.Sampler, error) {
	s, err := k.with(func(options any, of []option.Option) error { return given.Apply(options, of, said) })
	rows, is := s.(sampling.Sequence)
	if n := said.Text("neighbors"); err == nil && is && n != "" && n != fmt.Sprint(rows.Length) {
		err = option.Wrong("neighbors", " is %s: a sequence has as many as %s says, %d: leave one out", n,
			option.NameOf(rows, "Length"), rows.Length)
	}
	return s, err
}

// Take returns the sampler with its options of a JSON object, which it takes out of that, and others at zero.
func (k *Kind) Take(document map[string]json.RawMessage) (sampling.Sampler, error) {
	return k.with(func(options any, of []option.Option) error { return given.TakeDocument(options, of, document) })
}

// with returns the sampler after set, which is given a pointer to it, or to what makes sequences of it.
func (k *Kind) with(set func(options any, of []option.Option) error) (sampling.Sampler, error) {
	at, rows := reflect.New(reflect.TypeOf(k.bare)), sampling.Sequence{}
	at.Elem().Set(reflect.ValueOf(k.bare))
	if err := cmp.Or(set(at.Interface(), options()[k.Name]), set(&rows, k.Sequences())); err != nil {
		return nil, err
	}
	if rows.Of = at.Elem().Interface().(sampling.Sampler); rows.Length == 0 && !rows.SeedFirst {
		return rows.Of, nil
	}
	return rows, nil
}
