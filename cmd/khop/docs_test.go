package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// TestPagesThatErrorsNameAreThere: who has the wheel alone opens them by "khop docs NAME".
func TestPagesThatErrorsNameAreThere(t *testing.T) {
	names := regexp.MustCompile(`\(khop docs ([a-z-]+)(?:, \\?"([A-Za-z ]+)\\?")?`)
	sections := regexp.MustCompile(`(?m)^SECTION = "([^"]+)"`)
	seen := 0
	for _, root := range []string{"cmd", "formats", "integrations", "loader", "internal"} {
		expect.OK(t, filepath.WalkDir("../../"+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".py") {
				return err
			}
			text := string(expect.Must(os.ReadFile(path))(t))
			for _, m := range names.FindAllStringSubmatch(text, -1) {
				page, err := os.ReadFile("../../docs/" + m[1] + ".md")
				expect.That(t, err == nil && (strings.Contains(string(page), "# "+m[2]) ||
					strings.Contains(string(page), "**"+m[2]+".**")), "%s names %s", path, m[0])
				seen++
			}
			for _, m := range sections.FindAllStringSubmatch(text, -1) {
				page := expect.Must(os.ReadFile("../../docs/migrating.md"))(t)
				expect.That(t, strings.Contains(string(page), "# "+m[1]+"\n"), "%s names %s", path, m[1])
			}
			return nil
		}))
	}
	expect.That(t, seen >= 5, "%d pages are named", seen)
}
