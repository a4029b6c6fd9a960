package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		section += sections["Shared options"]
		if slices.Contains(loads, c.Name) {
			section += sections["Options of loading"]
		}
		for _, f := range c.Flags {
			row := regexp.MustCompile("(?m)^`--" + f.Name + "[=`].*" + regexp.QuoteMeta(f.Help))
			if !row.MatchString(section) && f.Name != "help" && !f.Hidden { // for programs: --help has none of these
				t.Errorf("docs/cli.md: khop %s: no --%s, %s", c.Name, f.Name, f.Help)
			}
		}
		there[c.Name] = true
	}
	for name := range sections {
		if there[name] || name == "Shared options" || name == "Options of loading" {
			continue
		}
		t.Errorf("docs/cli.md describes khop %s, which there is not", name)
	}
}

// manual returns the sections of the manual that follow its conventions, by command or title.
func manual(text string) map[string]string {
	_, text, _ = strings.Cut(text, "\n## Conventions")
	sections := map[string]string{}
	for _, s := range strings.Split(text, "\n## ")[1:] {
		name, _, _ := strings.Cut(s, "\n")
		if of, isCommand := strings.CutPrefix(name, "khop "); isCommand {
			name = strings.Fields(of)[0]
		}
		sections[name] = s
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

// command is a line that calls khop; what drawings have beside it is ten blanks away.
var command = regexp.MustCompile(`^(?:\$ )?(?:go run \./cmd/)?khop (\S.*)$`)

// calls returns the arguments of each call of khop in the blocks of a page.
func calls(page string) (all [][]string) {
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		if strings.HasPrefix(line, "```") {
			fenced = strings.HasPrefix(line, "```sh")
		}
		m := command.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !fenced && !strings.HasPrefix(line, "    ") || strings.Contains(line, "          ") {
			continue
		}
		said, _, _ := strings.Cut(m[1], "#")
		args := strings.Fields(strings.NewReplacer("'", "", `"`, "", " ... ", " ").Replace(said))
		if at := slices.IndexFunc(args, func(a string) bool { return strings.ContainsAny(a, "><|;&") }); at >= 0 {
			args = args[:at]
		}
		if len(args) > 0 {
			all = append(all, args)
		}
	}
	return all
}

// TestPagesCallKhopAsItIsCalled parses each command that a page shows: no option of it is gone.
func TestPagesCallKhopAsItIsCalled(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "integrations/python/*.md"} {
		for _, page := range expect.Must(filepath.Glob("../../" + pattern))(t) {
			for _, args := range calls(string(expect.Must(os.ReadFile(page))(t))) {
				var cli commands
				parser := expect.Must(newParser(&cli, nil, io.Discard, io.Discard))(t)
				_, err := parser.Parse(args)
				expect.That(t, err == nil, "%s: khop %s: %v", page, strings.Join(args, " "), err)
				seen++
			}
		}
	}
	expect.That(t, seen > 35, "%d commands were found", seen)
}
