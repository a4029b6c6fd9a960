package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/project"
)

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
