package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

func noticesFile(khop string) string { return filepath.Join(khop, "cmd", "khop", "NOTICES.txt") }

// notices returns the list of parts and the texts of their licences, each text once.
func notices(khop string) ([]byte, error) {
	all, err := parts(khop)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("The khop program contains the software below. Written by make notices.\n\n")
	owners := map[string][]string{}
	var texts []string
	for _, p := range all {
		fmt.Fprintf(&b, "%s: %s\n", p.name(), strings.Join(p.Licences, ", "))
		for _, path := range slices.Sorted(maps.Keys(p.Texts)) {
			text := p.Texts[path]
			if owners[text] == nil {
				texts = append(texts, text)
			}
			owner := p.name()
			if path != "LICENSE" {
				owner += ", " + path
			}
			owners[text] = append(owners[text], owner)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("-", 80), strings.Join(owners[text], "\n"), text)
	}
	return []byte(b.String()), nil
}

func (p part) name() string {
	if p.Path == "std" {
		return "Go's standard library"
	}
	return p.Path + " " + p.Version
}
