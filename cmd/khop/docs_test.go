package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestTheManualNamesEveryCommandAndFlag(t *testing.T) {
	sections := manual(string(expect.Must(os.ReadFile("../../docs/cli.md"))(t)))
	var cli commands
	parser := expect.Must(newParser(&cli, nil, os.Stdout, os.Stderr))(t)
	there := map[string]bool{}
	for _, c := range parser.Model.Children {
		section, ok := sections[c.Name]
		expect.That(t, ok, "docs/cli.md has no section on khop %s", c.Name)
		if c.Name == "bench" || c.Name == "serve" || c.Name == "plan" {
			section += sections["sample"]
		}
		if slices.ContainsFunc(c.Flags, func(f *kong.Flag) bool { return f.Name == "cache-dir" }) {
			section += sections["stage"] // has what all take that read a dataset from elsewhere
		}
		for _, f := range c.Flags {
			expect.That(t, strings.Contains(section, "--"+f.Name), "docs/cli.md: khop %s: no --%s", c.Name, f.Name)
		}
		there[c.Name] = true
	}
	for name := range sections {
		if there[name] {
			continue
		}
		t.Errorf("docs/cli.md describes khop %s, which there is not", name)
	}
}

// manual returns the sections of the manual by command.
func manual(text string) map[string]string {
	_, text, _ = strings.Cut(text, "\n## Conventions")
	sections := map[string]string{}
	for _, s := range strings.Split(text, "\n## khop ")[1:] {
		name, _, _ := strings.Cut(s, "\n")
		sections[strings.Fields(name)[0]] = s
	}
	return sections
}
