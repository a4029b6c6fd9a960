package main

import (
	_ "embed"
	"fmt"
	"runtime"
	"strconv"

	"github.com/khop-gnn/khop/integrations/shm"
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
