package main

import (
	"cmp"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/launcher"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/samplers"
)

type optionsCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// optionsResult is what "khop options --json" prints. Programs that make other doors of it rely on the names.
type optionsResult struct {
	Options  []optionRecord  `json:"options"` // by name
	Samplers []samplerOfName `json:"samplers"`
	// Launchers say ranks, in their order.
	Launchers []launcher.Launcher `json:"launchers"`
	Commands  []commandRecord     `json:"commands"` // in the order of --help
}

// commandRecord is a command with its flags, in the words and the order of its --help.
type commandRecord struct {
	Name  string       `json:"name"` // trace merge
	Help  string       `json:"help"`
	Flags []flagRecord `json:"flags"`
}

// flagRecord is a flag as --help shows it.
type flagRecord struct {
	Name    string `json:"name"`
	Group   string `json:"group"` // the heading that it is below; "" for the flags of the command alone
	Value   string `json:"value"` // what stands for the value in help; "" of a switch
	Default string `json:"default"`
	Help    string `json:"help"`
}

// optionRecord is an option. Numbers are texts.
type optionRecord struct {
	Name     string   `json:"name"` // on the command line: half-life
	Key      string   `json:"key"`  // in JSON and in Python: half_life
	Kind     string   `json:"kind"` // int, float, bool, text, choice, size, duration, list, fanouts, path, partition
	Default  string   `json:"default"`
	Choices  []string `json:"choices"`
	Least    string   `json:"least"`
	Most     string   `json:"most"`
	Group    string   `json:"group"`    // of loader.Options: links, disk, ...; sampler, server
	Samplers []string `json:"samplers"` // that take it; none: it is not of samplers
	Doors    []string `json:"doors"`    // commands
	With     string   `json:"with"`     // the option that it belongs to
	Means    string   `json:"means"`    // of a switch that stands for another option: residence=resident
	Value    string   `json:"value"`    // what stands for the value in help
	Help     string   `json:"help"`
}

type samplerOfName struct {
	Name    string   `json:"name"`
	Help    string   `json:"help"`
	Device  bool     `json:"device"` // runs on CUDA devices, too
	Struct  string   `json:"struct"` // in Go, in package sampling
	Options []string `json:"options"`
	Fields  []string `json:"fields"` // one for each option, such as Neighbor.Time.Edge
}

// listOptions returns all options and samplers. An option of several commands is there once for all that take the same.
func listOptions() (r optionsResult) {
	commands := new(commands).tagged()
	for _, door := range slices.Sorted(maps.Keys(commands)) {
		for _, o := range commands[door].declare(door) {
			r.add(door, recordOf(&o))
			if o.Short != "" {
				r.add(door, optionRecord{Name: o.Short, Key: o.Short, Kind: "bool", Choices: []string{},
					Samplers: []string{}, Means: o.Name + "=" + o.Short, Help: shortHelp(&o)})
			}
		}
	}
	slices.SortStableFunc(r.Options, func(a, b optionRecord) int { return cmp.Compare(a.Name, b.Name) })
	for i := range samplers.All {
		s := &samplers.All[i]
		of := samplerOfName{Name: s.Name, Help: s.About, Device: s.OnDevice(), Struct: s.Struct(), Options: []string{},
			Fields: append([]string{}, s.Fields()...)}
		for _, o := range s.Options() {
			of.Options = append(of.Options, o.Name)
		}
		r.Samplers = append(r.Samplers, of)
	}
	r.Launchers = launcher.All
	return r
}

// listCommands returns the commands, as their --help describes them.
func listCommands() (all []commandRecord, err error) {
	var cli commands
	parser, err := newParser(&cli, nil, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	for _, node := range parser.Model.Leaves(true) {
		c := commandRecord{Name: node.Path(), Help: node.Help, Flags: []flagRecord{}}
		for _, f := range node.Flags {
			if f.Hidden || f.Name == parser.Model.HelpFlag.Name {
				continue
			}
			of := flagRecord{Name: f.Name, Default: f.Default, Help: f.Help}
			if !f.IsBool() {
				of.Value = strings.Trim(f.FormatPlaceHolder(), `"`)
			}
			if f.Group != nil {
				of.Group = f.Group.Key
			}
			c.Flags = append(c.Flags, of)
		}
		all = append(all, c)
	}
	return all, nil
}

// add adds an option of a command.
func (r *optionsResult) add(door string, o optionRecord) {
	group := o.Group
	for i := range r.Options { // servers have one of the loader's
		o.Doors, o.Group = r.Options[i].Doors, r.Options[i].Group
		if reflect.DeepEqual(o, r.Options[i]) {
			r.Options[i].Doors = append(o.Doors, door)
			return
		}
	}
	o.Doors, o.Group = []string{door}, group
	r.Options = append(r.Options, o)
}

// recordOf returns what the tags say of an option.
func recordOf(o *option.Option) optionRecord {
	group := o.Group
	if o.For != nil {
		group = "sampler"
	}
	return optionRecord{Name: o.Name, Key: o.Key(), Kind: o.Kind, Default: o.Default,
		Choices: append([]string{}, o.Choices...), Least: o.Least, Most: o.Most, Group: group,
		Samplers: append([]string{}, o.For...), With: o.With, Value: o.Value, Help: o.Help}
}

// Run prints the table of options.
func (c *optionsCmd) Run(env *environment) (err error) {
	r := listOptions()
	if c.JSON {
		if r.Commands, err = listCommands(); err != nil {
			return err
		}
		return env.printJSON(r)
	}
	t := newTable(env.stdout)
	for _, o := range r.Options {
		t.row(flagText(o.Name, o.Default), o.Help+" For "+strings.Join(o.Doors, ", ")+".")
	}
	return t.flush()
}
