// Command release builds what a release of khop has, from a checkout, into dist/release: "make release VERSION=0.1.0".
// It is a module of its own, so that khop depends on nothing for it. The same commit gives the same bytes, wherever and
// whenever it is built, but for a signature of another key.
//
// goreleaser does not drive it: most of the work would be its hooks. nfpm v2.48.0 would write the Debian package in
// place of 45 lines of deb.go. It brings a git client, OpenPGP and 250 packages more, which each run of the tests would
// compile.
package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const usage = `usage: release build [-root KHOP] [-python PYTHON] [-only PART,..] VERSION   into KHOP/dist/release
       release keys FILE                 makes a key to sign with, and FILE.pub
       release sign KEY FOLDER           signs FOLDER/SHA256SUMS
       release zip KHOP VERSION FOLDER   writes what a proxy of Go modules serves of the last commit
       release verify FILE.pub FOLDER    fails where a file is not as it was signed`

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "build":
		return build(args[1:])
	case len(args) == 2 && args[0] == "keys":
		return makeKeys(rand.Reader, args[1])
	case len(args) == 3 && args[0] == "sign":
		return sign(args[1], args[2])
	case len(args) == 4 && args[0] == "zip":
		return moduleZip(args[1], args[2], args[3])
	case len(args) == 3 && args[0] == "verify":
		return verify(args[1], args[2])
	}
	return fmt.Errorf("%s", usage)
}

// release is what is being built.
type release struct {
	project
	root, out, work string
	python          string // for wheels and shared libraries: one that has what requirements.txt lists
	commit          string
	started         time.Time
}

// parts are built in this order: later ones take programs of earlier ones.
var parts = []struct {
	name, says string
	build      func(*release) error
}{
	{"programs", "programs for Linux, macOS and Windows", (*release).programs},
	{"debs", "Debian packages", (*release).debs},
	{"image", "the container image", (*release).image},
	{"bills", "bills of materials", (*release).bills},
	{"libraries", "shared libraries", (*release).libraries},
	{"cuda", "khop-cuda", (*release).cuda},
	{"python", "wheels and source distribution", (*release).wheels},
}

func build(args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	root := flags.String("root", "../..", "the checkout")
	python := flags.String("python", "python3", "a Python that has what tools/release/requirements.txt lists")
	only := flags.String("only", "", "parts to build, with commas; default: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := newRelease(*root, *python, flags.Arg(0))
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.lean(); err != nil {
		return err
	}
	for _, part := range parts {
		if *only != "" && part.name != "programs" && !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		r.say("%s", part.says)
		if err := part.build(r); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := r.sums(); err != nil {
		return err
	}
	r.say("done: %s", r.out)
	return nil
}

// newRelease checks that the checkout is of that version, and empties the folder of releases.
func newRelease(root, python, version string) (*release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	p, err := readProject(root)
	if err != nil {
		return nil, err
	}
	if version != p.Version {
		return nil, fmt.Errorf("VERSION=%s, but internal/project/project.json is of %s: change it there first, with"+
			" __version__ in integrations/python/src/khop/__init__.py", version, p.Version)
	}
	r := &release{project: p, root: root, out: filepath.Join(root, "dist", "release"), python: python,
		started: time.Now()}
	if r.work, err = os.MkdirTemp("", "khop-release-"); err != nil {
		return nil, err
	}
	if commit, err := r.output("git", "rev-parse", "HEAD"); err == nil {
		r.commit = strings.TrimSpace(commit)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return nil, err
	}
	return r, os.MkdirAll(r.out, 0o755)
}

func (r *release) say(format string, args ...any) {
	t := time.Since(r.started)
	fmt.Printf("release, %d:%02d: %s\n", int(t.Minutes()), int(t.Seconds())%60, fmt.Sprintf(format, args...))
}
