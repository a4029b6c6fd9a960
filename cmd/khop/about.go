package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/project"
	"github.com/khop-gnn/khop/loader"
)

// notices lists what others wrote of the program, with the licences. tools/bom writes it.
//
//go:embed NOTICES.txt
var notices string

type versionCmd struct {
	JSON    bool `help:"Print one JSON object." name:"json" xor:"what"`
	Notices bool `help:"Print the licences of all software in the program." xor:"what"`
}

// versions is what "khop version --json" prints. Scripts rely on the names.
type versions struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
	Format    string `json:"format"`
	Semantics string `json:"semantics"`
	Feed      string `json:"feed"`
	Docs      string `json:"docs"`
}

func currentVersions() versions {
	return versions{
		Version: project.Version(), Revision: project.Revision(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Format: "1.0",
		Semantics: strconv.Itoa(loader.Semantics), Feed: strconv.Itoa(shm.Version), Docs: project.Get().Docs,
	}
}

// Run prints the versions.
func (c *versionCmd) Run(env *environment) error {
	if c.Notices {
		_, err := fmt.Fprint(env.stdout, notices)
		return err
	}
	v := currentVersions()
	if c.JSON {
		return env.printJSON(v)
	}
	fmt.Fprintf(env.stdout, "khop %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	if v.Revision != "" {
		fmt.Fprintf(env.stdout, "revision %s\n", v.Revision)
	}
	_, err := fmt.Fprintf(env.stdout, "file format %s, sampling semantics %s\n", v.Format, v.Semantics)
	return err
}

type docsCmd struct {
	Page string `arg:"" optional:"" help:"Page, such as cli; without one khop lists all pages."`
}

// Help says where pages come from.
func (docsCmd) Help() string {
	return "khop prints pages that were installed with it. If there are none, it prints their address."
}

// Run prints a page, or lists them.
func (c *docsCmd) Run(env *environment) error {
	folder, name := pagesFolder(), strings.TrimSuffix(c.Page, ".md")
	switch {
	case folder == "":
		if name != "" {
			name += ".md"
		}
		_, err := fmt.Fprintln(env.stdout, project.Get().Docs+name)
		return err
	case name == "":
		pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
		for _, page := range pages {
			fmt.Fprintln(env.stdout, strings.TrimSuffix(filepath.Base(page), ".md"))
		}
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, filepath.Base(name)+".md"))
	if errors.Is(err, fs.ErrNotExist) {
		return usageError("there is no page %s in %s: khop docs lists them", paths.Text(name), folder)
	}
	if err == nil {
		_, err = env.stdout.Write(text)
	}
	return err
}

// pagesFolder returns the folder of pages that was installed with the program: of an archive or a package of Debian, or
// of the Python package. "" means there is none.
func pagesFolder() string {
	program, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	for _, folder := range []string{"../share/doc/khop", "../docs"} {
		folder = filepath.Join(filepath.Dir(program), folder)
		if _, err := os.Stat(filepath.Join(folder, "cli.md")); err == nil {
			return folder
		}
	}
	return ""
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to install the script.
func (completionCmd) Help() string {
	return "Install it by the line of your shell:\n" + helpTable([][2]string{
		{"bash", "source <(khop completion bash)"}, {"zsh", "source <(khop completion zsh)"},
		{"fish", "khop completion fish > ~/.config/fish/completions/khop.fish"}})
}

// completionScripts make a shell ask the program itself, which answers where COMP_LINE is set (see run). Where it has
// no answer, the shell completes names of files.
var completionScripts = map[string]string{
	"bash": "complete -o default -C khop khop",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C khop khop",
	"fish": `function __khop_complete
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    khop
end
complete -c khop -a "(__khop_complete)"`,
}

// Run prints the script.
func (c *completionCmd) Run(env *environment) error {
	_, err := fmt.Fprintln(env.stdout, completionScripts[c.Shell])
	return err
}
