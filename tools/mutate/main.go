// Command mutate plants small bugs in packages, one at a time, and lists those that the packages' own tests miss: a
// negated condition, a comparison off by one, a statement left out, an error dropped.
//
// It draws a sample of all mutants by a seed. A mutant is compiled as an overlay, so the tree is never touched, and is
// given to the tests that reach it, the quickest first. One that does not compile does not count, one that no test
// reaches survives. A file lists mutants that change nothing that can be seen, each with a reason.
//
// Usage: mutate [-n 100] [-seed 1] [-skip REGEXP] [-leave REGEXP] [-equivalent FILE] [-short] [-tags TAGS] PACKAGE...
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	n := flag.Int("n", 100, "mutants to try")
	seed := flag.Uint64("seed", 1, "of the sample")
	skip := flag.String("skip", "", "files to leave out: a regular expression of their names")
	equivalent := flag.String("equivalent", "", "list of equivalent mutants, see equivalent.txt")
	leave := flag.String("leave", "", "lines to leave out: a regular expression, such as prefetch")
	only := flag.String("only", "", "mutants to try: a regular expression of FILE:LINE OPERATOR")
	short := flag.Bool("short", false, "run the tests with -short")
	tags := flag.String("tags", "", "build tags")
	flag.Parse()
	known, err := readEquivalent(*equivalent)
	if err == nil {
		c := campaign{known: known, n: *n, seed: *seed, out: os.Stdout}
		if *short {
			c.args = append(c.args, "-test.short")
		}
		if *tags != "" {
			c.flags = append(c.flags, "-tags", *tags)
		}
		if *skip != "" {
			c.skip = regexp.MustCompile(*skip)
		}
		if *leave != "" {
			c.leave = regexp.MustCompile(*leave)
		}
		if *only != "" {
			c.only = regexp.MustCompile(*only)
		}
		err = c.run(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
}

// known is an equivalent mutant: a change of a line of a file.
type known struct{ file, before, after string }

// readEquivalent reads the list of equivalent mutants.
func readEquivalent(path string) (map[known]bool, error) {
	list := map[known]bool{}
	if path == "" {
		return list, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, " | ")
		if len(f) != 4 {
			return nil, fmt.Errorf("%s:%d: must be FILE | BEFORE | AFTER | REASON", path, i+1)
		}
		list[known{f[0], f[1], f[2]}] = true
	}
	return list, nil
}

// campaign is a sample of mutants, and what became of them.
type campaign struct {
	known       map[known]bool
	n           int
	seed        uint64
	skip, only  *regexp.Regexp // nil: none, all
	leave       *regexp.Regexp // nil: none
	flags, args []string
	root        string
	out         io.Writer
}

// planted is a mutant and where it belongs.
type planted struct {
	*suite
	*source
	mutant
}

// outcome is what became of a mutant.
type outcome string

const (
	notBuilt   outcome = "does not compile"
	killed     outcome = "killed"
	survived   outcome = "survived"
	notReached outcome = "not reached"
	listed     outcome = "equivalent"
)

func (c *campaign) run(patterns []string) error {
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if c.root, err = os.Getwd(); err != nil {
		return err
	}
	suites, err := load(patterns, c.skip, c.flags)
	if err != nil {
		return err
	}
	var all []planted
	for _, s := range suites {
		s.scratch, s.args = scratch, c.args
		for _, src := range s.sources {
			for _, m := range mutants(src) {
				if c.wanted(src, &m) {
					all = append(all, planted{s, src, m})
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(c.seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return c.judge(all)
}

// wanted reports whether a mutant may be in the sample.
func (c *campaign) wanted(src *source, m *mutant) bool {
	before, _ := src.lines(m)
	name := fmt.Sprintf("%s:%d %s", c.name(m), m.line, m.operator)
	return (c.only == nil || c.only.MatchString(name)) && (c.leave == nil || !c.leave.MatchString(before))
}

// judge tries mutants until n of them compile.
func (c *campaign) judge(all []planted) error {
	counts, tried := map[outcome]int{}, 0
	ready := map[*suite]bool{}
	for i := range all {
		if tried == c.n {
			break
		}
		p := &all[i]
		if !ready[p.suite] {
			if err := p.measure(); err != nil {
				return err
			}
			ready[p.suite] = true
		}
		before, after := p.lines(&p.mutant)
		o, err := c.outcome(p, known{c.name(&p.mutant), before, after})
		if err != nil {
			return err
		}
		if o == notBuilt {
			continue
		}
		tried++
		counts[o]++
		fmt.Fprintf(c.out, "%s:%d: %s: %s\n", c.name(&p.mutant), p.line, p.operator, o)
		if o == survived || o == notReached {
			fmt.Fprintf(c.out, "  - %s\n  + %s\n", before, after)
		}
	}
	count := tried - counts[listed]
	_, err := fmt.Fprintf(c.out, "%d possible, %d tried, %d equivalent; of %d others %d killed, %d not reached, "+
		"%d survived (%.0f %%)\n",
		len(all), tried, counts[listed], count, counts[killed], counts[notReached], counts[survived],
		100*float64(counts[killed])/float64(max(count, 1)))
	return err
}

// name returns the mutant's file as it is printed.
func (c *campaign) name(m *mutant) string {
	if rel, err := filepath.Rel(c.root, m.file); err == nil {
		return filepath.ToSlash(rel)
	}
	return m.file
}

// outcome plants a mutant and runs the tests that reach it.
func (c *campaign) outcome(p *planted, as known) (outcome, error) {
	if c.known[as] {
		return listed, nil
	}
	file, overlay := filepath.Join(p.scratch, "planted.go"), filepath.Join(p.scratch, "overlay.json")
	binary := filepath.Join(p.scratch, "planted.test")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {p.file: file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, p.apply(&p.mutant), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	if !p.compile(binary, "-overlay", overlay) {
		return notBuilt, nil
	}
	reaching := p.reaching(&p.mutant)
	switch {
	case len(reaching) == 0:
		return notReached, nil
	case p.killed(binary, reaching):
		return killed, nil
	default:
		return survived, nil
	}
}
