// Package project says what khop is called, where it lives, and which version this is. project.json is the one place of
// it: tests of tools/release hold go.mod, the Python package and the site to it.
package project

import (
	_ "embed"
	"encoding/json"
	"runtime/debug"
	"strings"
	"sync"
)

// Project is what the program needs of project.json.
type Project struct {
	Version string // of the next release: see Version
	Module  string
	Docs    string // the folder of pages: a name such as cli.md follows
}

//go:embed project.json
var text []byte

// Get returns the project.
var Get = sync.OnceValue(func() (p Project) {
	if err := json.Unmarshal(text, &p); err != nil {
		panic(err) // a test reads it
	}
	return p
})

// release and revision are set where a release is built: go build -ldflags "-X ...".
var release, revision string

// Version returns the version of this build: of a release what it is, of a module that go install got its version, and
// else that of the next release with "-dev".
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == Get().Module {
		if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.ContainsAny(v, "+-") {
			return v
		}
	}
	return Get().Version + "-dev"
}

// Revision returns the commit that was built; "" where that is not known.
func Revision() string {
	if revision != "" {
		return revision
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}
