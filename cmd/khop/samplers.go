package main

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/samplers"
)

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
	Why     string          `json:"why"`    // it does not
	Options []samplerOption `json:"options"`
}

type samplerOption struct {
	Name    string `json:"name"`
	Default string `json:"default"` // "" where there is none, as of a switch
	Switch  bool   `json:"switch"`  // takes no value
	CPU     bool   `json:"cpu"`     // with it the sampler runs on the CPU alone: true of none
	Help    string `json:"help"`
}

// Run prints the table of samplers.
func (c *samplersCmd) Run(env *environment) error {
	result := samplersResult{}
	for i := range samplers.All {
		s := &samplers.All[i]
		record := samplerRecord{Name: s.Name, About: s.About, Device: s.OnDevice(), Why: s.Why,
			Options: []samplerOption{}}
		for _, o := range s.Options() {
			record.Options = append(record.Options, samplerOption{o.Name, o.Default, o.Kind == "bool",
				false, o.Help})
		}
		result.Samplers = append(result.Samplers, record)
	}
	if c.JSON {
		return env.printJSON(result)
	}
	for _, s := range result.Samplers {
		where := "on the CPU and on CUDA devices"
		if !s.Device {
			where = "on the CPU: " + s.Why
		}
		fmt.Fprintf(env.stdout, "%s: %s; %s\n", s.Name, s.About, where)
		t := newTable(env.stdout)
		for _, o := range s.Options {
			t.row("  "+flagText(o.Name, o.Default), o.Help)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flagText spells a flag with its default.
func flagText(name, value string) string {
	if value != "" {
		value = "=" + value
	}
	return "--" + name + value
}
