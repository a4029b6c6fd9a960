package main

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionNumber is the module's version; see CHANGELOG.md.
const versionNumber = "0.1.0-dev"

// notices lists what others wrote of the program, with the licences. tools/bom writes it.
//
//go:embed NOTICES.txt
var notices string

type versionCmd struct {
	JSON    bool `help:"Print one JSON object." name:"json" xor:"what"`
	Notices bool `help:"Print the licences of the software that the program contains." xor:"what"`
}

// versions is what "khop version --json" prints. Scripts rely on the names.
type versions struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
	Format    string `json:"format"`
	Semantics string `json:"semantics"`
}

func currentVersions() versions {
	v := versions{
		Version: versionNumber, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Format: "1.0", Semantics: "1",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v
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
