package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// optionFlags are flags that are made from the tags of structs of options, each by the name that it has there. kong
// takes them as fields of a struct that reflect makes, and has no say in the structs of options themselves: samplers
// share options, which kong would not allow, and what is not said must be told from what is said to be the default.
type optionFlags struct {
	kong.Plugins

	door    string
	flags   []option.Option
	chosen  chosen
	loader  loader.Options // as said, with Sampler, but without Seeds
	server  server.Options // of khop serve
	sampler sampling.Sampler
}

// chosen are options that the command itself turns into those of the loader.
type chosen struct {
	Sampler string `default:"neighbor" choices:"..." help:"How to sample"`
	Seeds   string `value:"SEEDS" help:"..."`
	Split   int    `default:"0" help:"Which of several splits of the name."`
}

// doors are the commands that have options of loaders.
var doors = []string{"bench", "plan", "sample", "serve"}

// everyOption returns all options that loaders, samplers and servers have. Callers do not write to them. Each command
// asks for them at every start.
var everyOption = sync.OnceValue(func() []option.Option {
	return option.Union(append(ofSampling(), option.Of(loader.Options{}), ofServer())...)
})

// ofSampling returns the options that say what is sampled: chosen, and those of each sampler.
func ofSampling() [][]option.Option {
	lists := [][]option.Option{chosenOptions()}
	for i := range samplers.All {
		lists = append(lists, samplers.All[i].Options())
	}
	return lists
}

// ofServer returns the options of server.Options.
func ofServer() []option.Option {
	all := slices.Clone(option.Of(server.Options{}))
	for i := range all {
		all[i].Group = "server"
	}
	return all
}

// chosenOptions returns the options of chosen, with the samplers that there are.
func chosenOptions() []option.Option {
	all := slices.Clone(option.Of(chosen{}))
	var about []string
	for _, s := range samplers.All {
		about = append(about, s.Name+" ("+s.About+")")
	}
	all[0].Choices = samplers.Names()
	all[0].Help += ": " + strings.Join(about, ", ") + "."
	return all
}

// of returns those of a struct's options that the command takes.
func (f *optionFlags) of(options any) []option.Option {
	all := slices.DeleteFunc(slices.Clone(option.Of(options)), func(o option.Option) bool { return !o.At(f.door) })
	return option.Complete(all, everyOption())
}

// declare makes the flags of a command.
func (f *optionFlags) declare(door string) {
	f.door = door
	lists := append(ofSampling(), f.of(loader.Options{}))
	if door == "serve" {
		lists = append(lists, f.of(server.Options{}))
	}
	f.flags = option.Union(lists...)
	var fields []reflect.StructField
	for i := range f.flags {
		o := &f.flags[i]
		fields = append(fields, flagField(o))
		if o.Short != "" {
			fields = append(fields, flagOf(o.Short, reflect.TypeFor[bool](), "help", shortHelp(o)))
		}
	}
	for i := range fields {
		fields[i].Name = fmt.Sprintf("Flag%d", i)
	}
	f.Plugins = kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

// shortHelp is help for the switch that stands for a value of an option.
func shortHelp(o *option.Option) string { return "The same as --" + o.Name + " " + o.Short + "." }

// flagField is a flag in kong's terms.
func flagField(o *option.Option) reflect.StructField {
	help := o.Help
	if takers := samplersThatTake(o.Name); takers != nil && len(takers) < len(samplers.All) {
		help += " For " + strings.Join(takers, ", ") + "."
	}
	tags := []string{"help", help}
	if o.Default != "" {
		tags = append(tags, "default", o.Default)
	}
	switch o.Kind {
	case "choice":
		tags = append(tags, "enum", strings.Join(o.Choices, ","))
	case "path":
		tags = append(tags, "type", "path")
	case "size":
		tags = append(tags, "placeholder", "SIZE")
	}
	if value := cmp.Or(o.Value, o.Default); value != "" && (o.Value != "" || !o.IsList()) {
		tags = append(tags, "placeholder", value) // unlike a default that is a text it has no quotes
	}
	if o.Required {
		tags = append(tags, "required", "true")
	}
	of := reflect.TypeFor[string]()
	switch {
	case o.Kind == "bool":
		of = reflect.TypeFor[bool]()
	case o.IsList():
		of = reflect.TypeFor[[]string]()
	}
	return flagOf(o.Name, of, tags...)
}

func flagOf(name string, of reflect.Type, tags ...string) reflect.StructField {
	text := "name:" + strconv.Quote(name)
	for i := 0; i < len(tags); i += 2 {
		text += " " + tags[i] + ":" + strconv.Quote(tags[i+1])
	}
	return reflect.StructField{Type: of, Tag: reflect.StructTag(text)}
}

// AfterApply sets the options as they were said. kong calls it.
func (f *optionFlags) AfterApply(line *kong.Context) error {
	said := option.Said{}
	for _, at := range line.Path {
		if at.Flag == nil {
			continue
		}
		switch value := at.Flag.Target.Interface().(type) {
		case bool:
			said[at.Flag.Name] = strconv.FormatBool(value)
		case string, []string:
			said[at.Flag.Name] = value
		}
	}
	return f.set(said)
}

// set sets the options.
func (f *optionFlags) set(said option.Said) (err error) {
	if err := f.widenShorts(said); err != nil {
		return err
	}
	if err := option.Apply(&f.chosen, chosenOptions(), said); err != nil {
		return err
	}
	if err := f.makeSampler(said); err != nil {
		return err
	}
	if err := option.Apply(&f.loader, f.of(loader.Options{}), said); err != nil {
		return err
	}
	if law, ok := said["negatives"]; ok && law != "none" && (f.loader.Links.Negatives.Ratio == 0 ||
		f.loader.Links.Negatives.Tries < 1) {
		return option.Errorf(nil, f.loader, "Links.Negatives.Ratio", " %v, %s %d: must be above 0",
			f.loader.Links.Negatives.Ratio, option.NameOf(f.loader, "Links.Negatives.Tries"),
			f.loader.Links.Negatives.Tries)
	}
	for _, name := range strings.Split(f.loader.Device.Name, ",") {
		if _, err := loader.ParseDevice(name); err != nil {
			return err
		}
	}
	if f.door == "serve" {
		all := f.of(server.Options{})
		i := slices.IndexFunc(all, func(o option.Option) bool { return o.Path == "IndexDType" })
		if name, ok := said[all[i].Name].(string); ok && name != all[i].Default {
			if said[all[i].Name], err = unified.ParseDType(name); err != nil {
				return err
			}
		}
		return option.Apply(&f.server, all, said)
	}
	return nil
}

// widenShorts puts an option in the place of the switch that stands for one of its values.
func (f *optionFlags) widenShorts(said option.Said) error {
	for i := range f.flags {
		o := &f.flags[i]
		if o.Short == "" || said[o.Short] != "true" {
			continue
		}
		if value, ok := said[o.Name]; ok && value != o.Default && value != o.Short {
			short := option.Option{Name: o.Short}
			return short.Errorf(nil, " and %s %v contradict each other", option.Name{Option: o.Name}, value)
		}
		said[o.Name] = o.Short
	}
	return nil
}

// makeSampler makes the chosen sampler, and refuses options that it does not take.
func (f *optionFlags) makeSampler(said option.Said) error {
	kind, err := samplers.Named(f.chosen.Sampler)
	if err != nil {
		return err
	}
	takes := kind.Options()
	for i := range f.flags {
		o := &f.flags[i]
		takers := samplersThatTake(o.Name)
		if _, ok := said[o.Name]; !ok || takers == nil || slices.Contains(takers, kind.Name) {
			continue
		}
		args := []any{option.Name{Option: "sampler"}, kind.Name, strings.Join(takers, ", "), kind.Name}
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
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := graph.ReadPartition(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paths.Text(file), err)
	}
	return p, nil
}
