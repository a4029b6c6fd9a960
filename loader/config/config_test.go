package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	tags "github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/sampling"
)

func TestOptionsArePrintedAndReadBack(t *testing.T) {
	asOf := int64(-3)
	samplers := []sampling.Sampler{
		sampling.Neighbor{Fanouts: []int{15, -1}, PerType: map[string][]int{"cites": {3}}, Frontier: sampling.NewNodes},
		sampling.Neighbor{Fanouts: []int{4}, Weight: "w", Share: 0.25, Direction: sampling.Both, Together: true},
		sampling.Neighbor{Fanouts: []int{2}, Time: sampling.Temporal{Node: "year", HalfLife: 1.5, AsOf: &asOf,
			Rules: []sampling.TimeRule{sampling.Before, sampling.NotAfter}}},
		sampling.Labor{Fanouts: []int{3}, BatchDependency: 4, Poisson: true},
		sampling.HGT{Nodes: []int{5}, PerType: map[string][]int{"paper": {2, 1}}},
		sampling.Walk{Length: 7, Metapath: []string{"a,b", "c"}, Restart: 0.5}, sampling.Induced{},
		sampling.Saint{Kind: sampling.SaintWalks, Budget: 9, Length: 3}, sampling.Cluster{PerBatch: 2},
		sampling.PinSage{Neighbors: 3, Length: 2, As: "x"}, sampling.PPR{Neighbors: 2, Epsilon: 1e-7},
		sampling.Full{Work: 99}, nil, sampling.Sequence{Of: sampling.PPR{Alpha: 0.5}, Length: 9, SeedFirst: true},
		sampling.Sequence{Of: sampling.Neighbor{Fanouts: []int{2}, Time: sampling.Temporal{Edge: "t", Recent: true}},
			Length: 2},
	}
	changes := []func(o *config.Options){
		func(o *config.Options) { o.BatchSize, o.Seed, o.Shuffle, o.DropLast = 7, 1<<64-1, true, true },
		func(o *config.Options) { o.Columns.Nodes, o.Columns.Edges = []string{}, []string{"w", "a,\"b\""} },
		func(o *config.Options) {
			o.Links = loader.LinkOptions{Label: "y", ExcludeSeeds: loader.ExcludeReverse,
				Negatives: sampling.Negatives{Ratio: 2.5, Strict: true, Replace: sampling.EitherEnd}}
		},
		func(o *config.Options) {
			o.Links.Negatives = sampling.Negatives{Ratio: 1, Law: sampling.InBatch, Tries: 3}
		},
		func(o *config.Options) {
			o.Device = loader.DeviceOptions{Name: "cuda:1", Memory: 1 << 40, Cache: loader.NoDeviceCache,
				HotRows: loader.RankNone}
		},
		func(o *config.Options) {
			o.Residence, o.Disk = loader.Disk, loader.DiskOptions{CacheBytes: 12345, Lookahead: 3, PackBytes: 1}
		},
		func(o *config.Options) {
			o.Tuning = loader.TuningOptions{SlotTimeout: 90 * time.Millisecond, Prefetch: 9, Carry: loader.CarryCopies}
		},
		func(o *config.Options) { o.Columns.Prepare = loader.Transpose | loader.Loops },
		func(o *config.Options) {
			o.Columns.Prepare, o.Verify, o.MaxMemory, o.RowsFrom = 0, true, 1<<62, "grpc://a:1"
		},
	}
	for _, s := range samplers {
		o := config.Options{Options: loader.Options{Sampler: s}}
		for i := range changes {
			changes[i](&o)
			text := o.String()
			again, err := config.Parse(text)
			expect.That(t, err == nil && reflect.DeepEqual(o, again), "%s:\n%+v\n%+v, %v", text, o, again, err)
			expect.That(t, again.String() == text, "%s is printed as %s", text, again.String())
		}
	}
	for _, text := range []string{"", "[]", `{"sampler": "none"}`, `{"sampler": 3}`, `{"batchsize": 3}`,
		`{"batch_size": 0}`, `{"batch_size": "x"}`, `{"sampler": "walk", "fanouts": "3"}`, `{"residence": "moon"}`,
		`{"node_columns": [[1]]}`} {
		if o, err := config.Parse(text); !errors.Is(err, loader.ErrOptions) {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
}

// names are texts that the text form of options could trip over.
var names = []string{"w", "a,b", `a\,"b"`, "a=1;b", "*", "-", " ", "größe", "null", "true", "1", "{}", "--x", "a_b"}

// drawOption puts a value that an option takes into its field.
func drawOption(t *testing.T, r *rand.Rand, o *tags.Option, at reflect.Value) {
	bound := func(text string, otherwise float64) float64 {
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x
		}
		return otherwise
	}
	least, most := bound(o.Least, 0), bound(o.Most, 1<<40)
	switch {
	case o.Kind == "partition": // which has no text
	case o.Choices != nil && at.Kind() != reflect.Slice:
		at.SetUint(uint64(r.IntN(len(o.Choices))))
		if strings.HasPrefix(fmt.Sprint(at), "unknown") { // "none" is no law of negatives
			at.SetZero()
		}
	case at.Kind() == reflect.Pointer:
		at.Set(reflect.New(at.Type().Elem()))
		at.Elem().SetInt(int64(r.Uint64()))
	case o.Kind == "fanouts":
		list := make([]int, 1+r.IntN(3))
		for i := range list {
			list[i] = r.IntN(20) - 1
		}
		at.Set(reflect.ValueOf(list))
	case at.Kind() == reflect.Slice:
		least := 0
		if o.Kind == "lists" {
			least = 1
		}
		at.Set(reflect.MakeSlice(at.Type(), least+r.IntN(4), 8))
		for i := range at.Len() {
			drawOption(t, r, &tags.Option{Choices: o.Choices, Least: "1"}, at.Index(i))
		}
	case at.Kind() == reflect.Bool:
		at.SetBool(r.IntN(2) == 0)
	case at.Kind() == reflect.String:
		at.SetString(names[r.IntN(len(names))])
	case at.CanFloat():
		at.SetFloat(least + r.Float64()*(min(most, 1e9)-least))
	case at.CanUint() && o.Most == "":
		at.SetUint(r.Uint64() >> (64 - at.Type().Bits()))
	case at.CanUint():
		at.SetUint(r.Uint64N(uint64(most) + 1))
	default:
		at.SetInt(int64(least) + r.Int64N(int64(most-least)+1))
	}
}

// drawOptions draws some of the options of a struct that a pointer leads to.
func drawOptions(t *testing.T, r *rand.Rand, options any, of []tags.Option) {
	v := reflect.ValueOf(options).Elem()
	for i := range of {
		at := v
		for _, name := range strings.Split(of[i].Path, ".") {
			at = at.FieldByName(name)
		}
		if r.IntN(3) == 0 || of[i].Name == "length" { // 0 means none in Go, and the default elsewhere
			drawOption(t, r, &of[i], at)
		}
		by := v.FieldByName("PerType")
		if of[i].Kind == "lists" {
			by = v.FieldByName("Time").FieldByName(of[i].Path[len("Time."):] + "PerType")
		}
		if (of[i].Kind == "fanouts" || of[i].Kind == "lists") && by.IsValid() && r.IntN(2) == 0 {
			list := reflect.New(at.Type()).Elem()
			drawOption(t, r, &of[i], list)
			by.Set(reflect.MakeMap(by.Type()))
			by.SetMapIndex(reflect.ValueOf("writes;a=b"), list)
		}
	}
}

// filled returns a sampler with the defaults of what it leaves out.
func filled(s sampling.Sampler) sampling.Sampler {
	if k, is := s.(sampling.Sequence); is {
		k.Of = filled(k.Of)
		return k
	}
	at := reflect.New(reflect.TypeOf(s))
	at.Elem().Set(reflect.ValueOf(s))
	tags.Fill(at.Interface())
	return at.Elem().Interface().(sampling.Sampler)
}

func TestDrawnOptionsArePrintedAndReadBack(t *testing.T) {
	seed := expect.Seed(t)
	for i := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, i))
		kind := &samplers.All[i%uint64(len(samplers.All))]
		sampler := reflect.New(reflect.TypeOf(expect.Must(kind.Take(nil))(t)))
		sampler.Elem().Set(reflect.ValueOf(expect.Must(kind.Take(nil))(t)))
		rows := kind.Sequences()
		drawOptions(t, r, sampler.Interface(), kind.Options()[:len(kind.Options())-len(rows)])
		o := config.Options{}
		o.Sampler = sampler.Elem().Interface().(sampling.Sampler)
		if len(rows) > 0 && r.IntN(2) == 0 {
			of := sampling.Sequence{Of: o.Sampler}
			drawOptions(t, r, &of, rows)
			of.Length = 1 + r.IntN(9)
			switch s := of.Of.(type) { // doors refuse another number
			case sampling.PPR:
				s.Neighbors = of.Length
				of.Of = s
			case sampling.PinSage:
				s.Neighbors = of.Length
				of.Of = s
			}
			o.Sampler = of
		}
		drawOptions(t, r, &o, given.Of(o))
		again, err := config.Parse(o.String())
		expect.That(t, err == nil && reflect.DeepEqual(o, again), "case %d, %s:\n%+v\n%+v, %v", i, o, o, again, err)
		// A door takes the default of what is not said.
		said, d := given.Values{}, map[string]json.RawMessage{}
		expect.OK(t, json.Unmarshal([]byte(o.String()), &d))
		for key, value := range d {
			said[strings.ReplaceAll(key, "_", "-")] = given.Say(value)
		}
		kind = expect.Must(samplers.Named(said.Text("sampler")))(t)
		want, got := kind.Document(filled(o.Sampler)), kind.Document(filled(expect.Must(kind.Make(said))(t)))
		for _, of := range kind.Options() {
			key := of.Key()
			lists := of.Kind == "fanouts" || of.Kind == "list" || of.Kind == "lists" // whose zeros are no defaults
			if said[of.Name] != nil || !lists {
				expect.That(t, reflect.DeepEqual(want[key], got[key]), "case %d, %s: %s is %v", i, o, key, got[key])
			}
		}
		other := config.Options{}
		other.Sampler = o.Sampler
		expect.OK(t, given.Apply(&other, given.Of(other), said))
		expect.That(t, tags.Filled(o).String() == tags.Filled(other).String(), "case %d, %s: %s", i, o, other)
	}
}
