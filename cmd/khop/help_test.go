package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// mostWords is how many words the help of an option has at most. Tables of docs/cli.md have the same words.
const mostWords = 20

func TestHelpIsShort(t *testing.T) {
	seen := 0
	for _, c := range expect.Must(listCommands())(t) {
		for _, f := range c.Flags {
			n := len(strings.Fields(f.Help))
			expect.That(t, n > 0 && n <= mostWords, "khop %s --%s has %d words: %s", c.Name, f.Name, n, f.Help)
			seen++
		}
	}
	expect.That(t, seen > 500, "%d options are there", seen)
}

// TestTheListOfCommandsFitsAScreen has each command on one line of 80 columns, below the heading of a task.
func TestTheListOfCommandsFitsAScreen(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	help := must(t, "--help")
	lines := strings.Split(strings.TrimSpace(help), "\n")
	expect.That(t, len(lines) <= 48, "%d lines", len(lines))
	for _, c := range expect.Must(listCommands())(t) {
		whole := func(line string) bool {
			return len(line) <= 80 && strings.HasPrefix(line, "  "+c.Name+"  ") && strings.HasSuffix(line, "  "+c.Help)
		}
		expect.That(t, slices.ContainsFunc(lines, whole), "khop %s: %q in\n%s", c.Name, c.Help, help)
	}
}

// TestHeadingsNameOptions finds all paths that headings name, so that none outlives its option.
func TestHeadingsNameOptions(t *testing.T) {
	var none commands
	for door, titles := range headings {
		all := none.tagged()[door].declare(door)
		for title, paths := range titles {
			for path := range strings.FieldsSeq(paths) {
				there := 0
				for i := range all {
					if all[i].Path == path && heading(door, &all[i]) == title {
						there++
					}
				}
				expect.That(t, there > 0, "khop %s: no option has the path %s", door, path)
			}
		}
	}
	for _, door := range loads {
		for _, o := range none.tagged()[door].declare(door) {
			own, at := o.Group == "server" || o.Path == "Tuning.Trace", heading(door, &o)
			expect.That(t, (at == "") == own, "khop %s: --%s is below %q", door, o.Name, at)
		}
	}
}
