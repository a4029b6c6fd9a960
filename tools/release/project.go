package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// project is what internal/project/project.json says.
type project struct {
	Name, Version, Module, Summary, License, Source, Docs, Maintainer string
}

func readProject(root string) (p project, err error) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "project", "project.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err
}

// output runs a program in the checkout and returns what it prints.
func (r *release) output(name string, args ...string) (string, error) {
	return r.with(nil, name, args...)
}

// with does the same with more of an environment.
func (r *release) with(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.root
	// What the caller says of building must not decide what is built.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
		"GOTOOLCHAIN=local", "LC_ALL=C", "TZ=UTC", "SOURCE_DATE_EPOCH=315532800", "GO_LDFLAGS="+r.ldflags(),
		"KHOP_RELEASE="+r.Version, "GO_MODFILE="+r.modfile())
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// ldflags leave out symbols, and say which release this is.
func (r *release) ldflags() string {
	of := r.Module + "/internal/project."
	return "-s -w -buildid= -X " + of + "release=" + r.Version + " -X " + of + "revision=" + r.commit
}

// modfile is a go.mod by which programs are smaller than by khop's own.
func (r *release) modfile() string { return filepath.Join(r.work, "lean.mod") }

// lean writes it: dependencies get tools/release/json in place of a library.
func (r *release) lean() error {
	for _, ext := range []string{".mod", ".sum"} {
		text, err := os.ReadFile(filepath.Join(r.root, "go"+ext))
		if err != nil {
			return err
		}
		if ext == ".mod" {
			text = append(text, "\nreplace github.com/goccy/go-json => ./tools/release/json\n"...)
		}
		if err := os.WriteFile(strings.TrimSuffix(r.modfile(), ".mod")+ext, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// platform is what programs are built for.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "/" + p.processor }

// name is a name of a file of the release: khop_0.1.0_linux_amd64.
func (r *release) name(what string, p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", what, r.Version, p.system, p.processor)
}

var (
	linux = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	other = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}
)
