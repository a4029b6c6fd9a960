package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A part is a module that the program contains, or Go's standard library.
type part struct {
	Path, Version string
	Licences      []string          // SPDX identifiers, sorted
	Texts         map[string]string // of the files that state them, by their path in the module
}

// builds are what is published, and what "make khop-cuda" makes.
var builds = []struct{ system, tags string }{{"linux", ""}, {"linux", "cuda"}, {"darwin", ""}, {"windows", ""}}

// parts returns what the program contains in any of its builds, sorted by path.
func parts(khop string) ([]part, error) {
	all := map[string]*part{}
	for _, b := range builds {
		if err := addParts(all, khop, b.system, b.tags); err != nil {
			return nil, err
		}
	}
	library, err := standardLibrary()
	if err != nil {
		return nil, err
	}
	list := []part{library}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		if p.Licences, err = identify(p.Texts); err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.Path, p.Version, err)
		}
		list = append(list, *p)
	}
	return list, nil
}

// addParts adds the modules of one build, with the licences that stand in the folders of its packages and above them.
func addParts(all map[string]*part, khop, system, tags string) error {
	cmd := exec.Command("go", "list", "-deps", "-tags", tags, "-json=Dir,Module", "./cmd/khop")
	cmd.Dir, cmd.Stderr = khop, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w", system, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&pkg); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if pkg.Module == nil || pkg.Module.Main {
			continue
		}
		p := all[pkg.Module.Path]
		if p == nil {
			p = &part{Path: pkg.Module.Path, Version: pkg.Module.Version, Texts: map[string]string{}}
			all[p.Path] = p
		}
		for dir := pkg.Dir; len(dir) >= len(pkg.Module.Dir); dir = filepath.Dir(dir) {
			if err := p.addTexts(pkg.Module.Dir, dir); err != nil {
				return err
			}
		}
		if len(p.Texts) == 0 { // a licence may stand in the README instead
			if text, err := os.ReadFile(filepath.Join(pkg.Module.Dir, "README.md")); err == nil {
				p.Texts["README.md"] = tidy(string(text))
			}
		}
	}
}

// chosen are the licences that khop takes where a module offers a choice: the text's path in the module.
var chosen = map[string]string{"github.com/golang/freetype": "licenses/ftl.txt"} // not the GPL

func (p *part) addTexts(root, dir string) error {
	if path := chosen[p.Path]; path != "" {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		p.Texts[path] = tidy(string(text))
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		stem, _, _ := strings.Cut(name, ".")
		if e.IsDir() || !slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"}, stem) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		p.Texts[filepath.ToSlash(path)] = tidy(string(text))
	}
	return nil
}

// tidy makes the same text of files that differ in line ends and space alone.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

func standardLibrary() (part, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return part{}, fmt.Errorf("go env GOROOT: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return part{}, err
	}
	p := part{Path: "std", Texts: map[string]string{"LICENSE": tidy(string(text))}}
	p.Licences, err = identify(p.Texts)
	return p, err
}

// identify names the licences of the texts. A part without one, or with one that is not known, may not be delivered.
func identify(texts map[string]string) ([]string, error) {
	found := map[string]bool{}
	for path, text := range texts {
		for _, match := range licensecheck.Scan([]byte(text)).Match {
			found[match.ID] = true
		}
		if !strings.Contains(strings.ToUpper(path), "NOTICE") && len(licensecheck.Scan([]byte(text)).Match) == 0 {
			return nil, fmt.Errorf("the licence in %s is not known", path)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("it has no licence")
	}
	return slices.Sorted(maps.Keys(found)), nil
}
