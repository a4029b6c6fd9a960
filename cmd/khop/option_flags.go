package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// optionFlags are flags of loaders, of all samplers, and of servers.
type optionFlags struct {
	tagFlags

	door    string
	chosen  chosen
	placed  bool           // rank or world size is given
	loader  config.Options // as said, with Sampler, but without Seeds
	server  server.Options // of khop serve
	sampler sampling.Sampler
	asOf    *dated // nil for a number, or none
}

// chosen are options that the command itself turns into those of the loader.
type chosen struct {
	Sampler string     `default:"neighbor" choices:"..." help:"How to sample"`
	Seeds   givenSeeds `kind:"text" value:"SEEDS" help:"..."`
	Split   int        `default:"0" help:"Index of the split, where several have the name."`
}

// everyOption returns all options that loaders, samplers and servers have. Callers do not write to them. Each command
// asks for them at every start.
var everyOption = sync.OnceValue(func() []option.Option {
	return given.Union(append(ofSampling(), loaderOptions(), ofServer())...)
})

// ofSampling returns the options that say what is sampled: chosen, and those of each sampler.
func ofSampling() [][]option.Option {
	lists := [][]option.Option{chosenOptions()}
	for i := range samplers.All {
		lists = append(lists, samplers.All[i].Options())
	}
	return lists
}

// loaderOptions returns the options of loaders. Where rows are stands beside where the dataset is.
func loaderOptions() []option.Option {
	all := slices.Clone(given.Of(config.Options{}))
	last := len(all) - 1
	at := slices.IndexFunc(all, func(o option.Option) bool { return o.Path == "Residence" }) + 1
	return slices.Insert(all[:last], at, all[last])
}

// ofServer returns the options of server.Options.
func ofServer() []option.Option {
	all := slices.Clone(given.Of(server.Options{}))
	for i := range all {
		all[i].Group = "server"
	}
	return all
}

// chosenOptions returns the options of chosen, with the samplers that there are.
func chosenOptions() []option.Option {
	all := slices.Clone(given.Of(chosen{}))
	all[0].Choices = samplers.Names()
	all[0].Help += ": " + strings.Join(all[0].Choices, ", ") + "."
	return all
}

// of returns those of a struct's options that the command takes.
func (f *optionFlags) of(all []option.Option) []option.Option {
	all = slices.DeleteFunc(slices.Clone(all), func(o option.Option) bool { return !o.At(f.door) })
	return given.Complete(all, everyOption())
}

// declare makes the flags of a command, and returns their options.
func (f *optionFlags) declare(door string) []option.Option {
	f.door = door
	return f.make(door, f.all)
}

// all returns the options of the command.
func (f *optionFlags) all() []option.Option {
	lists := append(ofSampling(), f.of(loaderOptions()))
	if f.door == "serve" {
		lists = append(lists, f.of(ofServer()))
	}
	all := given.Union(lists...)
	for i := range all {
		all[i].For = samplersThatTake(all[i].Name)
	}
	return all
}

// take sets the options as given.
func (f *optionFlags) take(line *kong.Context) error { return f.set(saidOn(line)) }

// set sets the options.
func (f *optionFlags) set(said given.Values) (err error) {
	if err := f.setElsewhere(said); err != nil {
		return err
	}
	if err := f.widenShorts(said); err != nil {
		return err
	}
	if err := given.Apply(&f.chosen, chosenOptions(), said); err != nil {
		return err
	}
	said, err = f.withoutDate(said)
	if err != nil {
		return err
	}
	if err := f.makeSampler(said); err != nil {
		return err
	}
	if err := given.Apply(&f.loader, f.of(loaderOptions()), said); err != nil {
		return err
	}
	if n := &f.loader.Links.Negatives; !slices.Contains([]string{"", "none"}, said.Text("negatives")) &&
		(n.Ratio == 0 || n.Tries < 1 || n.Alpha == 0) {
		return option.Errorf(nil, f.loader, "Links.Negatives.Ratio", " %v, %s %d, %s %v: must be above 0", n.Ratio,
			option.NameOf(f.loader, "Links.Negatives.Tries"), n.Tries,
			option.NameOf(f.loader, "Links.Negatives.Alpha"), n.Alpha)
	}
	for _, field := range []string{"Rank", "WorldSize"} {
		_, ok := said[option.NameOf(f.loader, field).Option]
		f.placed = f.placed || ok
	}
	for _, name := range strings.Split(f.loader.Device.Name, ",") {
		if _, err := loader.ParseDevice(name); err != nil {
			return err
		}
	}
	if f.door == "serve" {
		return given.Apply(&f.server, f.of(ofServer()), said)
	}
	return nil
}

// makeSampler makes the chosen sampler, and refuses options that it does not take.
func (f *optionFlags) makeSampler(said given.Values) error {
	kind, err := samplers.Named(f.chosen.Sampler)
	if err != nil {
		return err
	}
	takes := kind.Options()
	for i := range f.flags {
		o := &f.flags[i]
		if _, ok := said[o.Name]; !ok || o.Is(kind.Name) {
			continue
		}
		args := []any{option.Name{Option: "sampler"}, kind.Name, strings.Join(o.For, ", "), kind.Name}
		for _, t := range takes {
			args = append(args, option.Name{Option: t.Name})
		}
		return o.Errorf(nil, " is not for %s %s, but for: %s; %s takes: "+
			strings.TrimSuffix(strings.Repeat("%s, ", len(takes)), ", "), args...)
	}
	if file, ok := said["partition"].(string); ok {
		if said["partition"], err = readPartition(file); err != nil {
			return option.Errorf(nil, sampling.Cluster{}, "Partition", ": %w", err)
		}
	}
	f.sampler, err = kind.Make(said)
	return err
}

// samplersThatTake names the samplers that take an option; none for one that is not of samplers.
func samplersThatTake(name string) []string { return takers()[name] }

// takers has the samplers that take an option, by its name.
var takers = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for i := range samplers.All {
		s := &samplers.All[i]
		for _, o := range s.Options() {
			all[o.Name] = append(all[o.Name], s.Name)
		}
	}
	return all
})

// readPartition reads a file with the part of each node.
func readPartition(file string) (*graph.Partition, error) {
	f, st, err := wholefile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := roomForLines(f, st.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w", paths.Text(file), err)
	}
	p, err := graph.ReadPartition(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paths.Text(file), err)
	}
	return p, nil
}

// perLine is what reading a line of a partition takes: a number, a copy where the list grows, and garbage of the same.
const perLine = 4 * 4

// roomForLines refuses a file of more lines than what the control group leaves can hold. Command lines are read before
// memory is counted.
func roomForLines(f *os.File, size int64) error {
	_, room, limited := machine.Probe().GroupRoom()
	if !limited || size/2*perLine <= room { // a line has two bytes
		return nil
	}
	buf, lines := make([]byte, 1<<16), int64(0)
	for {
		n, err := f.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if need := lines * perLine; need > room {
		return fmt.Errorf("%w: its %s lines take %s, and the control group leaves %s; allow more", pinned.ErrLimit,
			humanize.Comma(lines), machine.Bytes(need), machine.Bytes(room))
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// headings are those below which help lists options, by the options' paths in Go, of commands that have many. Options
// that are not named stand first, below no heading; of commands that load batches see loadHeading.
var headings = map[string]map[string]string{
	"convert": {
		"Source:": "From Columns IDs Header Null Encoding SkipBad Features Labels Feature Label Keep " +
			"RelationsAsTypes UpTo Task",
		"Edges:":   "Direction Merge Loops ByTime",
		"Times:":   "TimeUnit TimesIn",
		"Storage:": "FeatureDType RowStride Reorder",
	},
}

// loads are the commands that load batches.
var loads = []string{"bench", "plan", "sample", "serve"}

// heading returns the heading of an option in the help of a command; "" means no heading.
func heading(door string, o *option.Option) string {
	if slices.Contains(loads, door) {
		return loadHeading(o)
	}
	for title, paths := range headings[door] {
		if slices.Contains(strings.Fields(paths), o.Path) {
			return title
		}
	}
	return ""
}

// loadHeading returns the heading of an option of loading.
func loadHeading(o *option.Option) string {
	const memory, device = "Memory and disk:", "Device:"
	switch neighbours := []string{"neighbor", "labor", "shadow"}; {
	case slices.ContainsFunc(neighbours, func(sampler string) bool { return slices.Contains(o.For, sampler) }):
		return "Neighbours:"
	case slices.Equal(o.For, []string{"temporal"}):
		return "Times, for temporal:"
	case o.For != nil:
		return "Other samplers:"
	}
	switch o.Path {
	case "Workers", "Tuning.Prefetch", "Residence", "RowsFrom", "Verify", "MaxMemory", "CacheDir", "CacheSize":
		return memory
	case "Tuning.Trace":
		return ""
	}
	return map[string]string{"": "Seeds and batches:", "links": "Seeds that are edges:", "columns": "Rows:",
		"disk": memory, "device": device, "tuning": device, "server": ""}[o.Group]
}

// helpTable is a table for the text of a command's help, which kong leaves as it is where lines begin with a blank.
func helpTable(rows [][2]string) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	text := ""
	for _, row := range rows {
		text += fmt.Sprintf("\n  %-*s  %s", width, row[0], row[1])
	}
	return text + "\n"
}
