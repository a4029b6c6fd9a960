// Command mutate plants small bugs in packages, one at a time, and lists those that the packages' own tests miss: a
// negated condition, a comparison off by one, a statement left out, an error dropped.
//
// It draws a sample of all mutants by a seed. They are compiled as an overlay, so the tree is never touched, as many in
// one binary as may be. Each is given to the tests that reach it, the quickest first. One that does not compile counts
// for nothing, one that no test reaches survives. A file lists mutants that change nothing that can be seen, each with
// a reason.
//
// Usage: mutate [-n 100] [-seed 1] [-skip REGEXP] [-leave REGEXP] [-equivalent FILE] [-short] [-tags TAGS] PACKAGE...
package main

import (
	"encoding/json"
	"errors"
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
	for next := 0; next < len(all) && tried < c.n; {
		var batch []*numbered
		for len(batch) < c.n-tried && next < len(all) {
			batch = append(batch, &numbered{planted: &all[next]})
			next++
		}
		outcomes, err := c.outcomes(batch)
		if err != nil {
			return err
		}
		for i, m := range batch {
			o := <-outcomes[i]
			if o.err != nil {
				return o.err
			}
			if o.outcome == notBuilt {
				continue
			}
			tried++
			counts[o.outcome]++
			fmt.Fprintf(c.out, "%s:%d: %s: %s\n", c.name(&m.mutant), m.line, m.operator, o.outcome)
			if o.outcome == survived || o.outcome == notReached {
				before, after := m.lines(&m.mutant)
				fmt.Fprintf(c.out, "  - %s\n  + %s\n", before, after)
			}
		}
	}
	count := tried - counts[listed]
	_, err := fmt.Fprintf(c.out, "%d possible, %d tried, %d equivalent; of %d others %d killed, %d not reached, "+
		"%d survived (%.0f %%)\n",
		len(all), tried, counts[listed], count, counts[killed], counts[notReached], counts[survived],
		100*float64(counts[killed])/float64(max(count, 1)))
	return err
}

// told is an outcome, or why there is none.
type told struct {
	outcome
	err error
}

// outcomes plants a batch of mutants: in one binary for each package those that can be there, the others by themselves.
// Two are tried at a time.
func (c *campaign) outcomes(batch []*numbered) ([]chan told, error) {
	shared, binaries := map[*suite][]*numbered{}, map[*suite]string{}
	for i, m := range batch {
		if m.shares = m.copyable(m.in) && !c.isKnown(m.planted); m.shares {
			m.number = i + 1
			shared[m.suite] = append(shared[m.suite], m)
		}
	}
	list := make([]chan told, len(batch))
	for _, m := range batch {
		s := m.suite
		if !s.ready {
			if err := s.measure(); err != nil {
				return nil, err
			}
			s.ready = true
		}
		if _, built := binaries[s]; !built && len(shared[s]) > 0 {
			var err error
			if binaries[s], err = s.build(shared[s]); err != nil {
				return nil, err
			}
		}
	}
	places := make(chan bool, 2)
	for i, m := range batch {
		list[i] = make(chan told, 1)
		go func() {
			places <- true
			defer func() { <-places }()
			switch {
			case c.isKnown(m.planted):
				list[i] <- told{listed, nil}
			case !m.shares:
				o, err := c.alone(m.planted)
				list[i] <- told{o, err}
			case m.number == 0:
				list[i] <- told{notBuilt, nil}
			default:
				list[i] <- told{m.judged(binaries[m.suite], m.number), nil}
			}
		}()
	}
	return list, nil
}

// judged runs the tests that reach a mutant.
func (p *planted) judged(binary string, number int) outcome {
	reaching := p.reaching(&p.mutant)
	switch {
	case len(reaching) == 0:
		return notReached
	case p.killed(binary, number, reaching):
		return killed
	default:
		return survived
	}
}

// name returns the mutant's file as it is printed.
func (c *campaign) name(m *mutant) string {
	if rel, err := filepath.Rel(c.root, m.file); err == nil {
		return filepath.ToSlash(rel)
	}
	return m.file
}

// isKnown reports whether a mutant is on the list of those that change nothing.
func (c *campaign) isKnown(p *planted) bool {
	before, after := p.lines(&p.mutant)
	return c.known[known{c.name(&p.mutant), before, after}]
}

// alone plants a mutant in a binary of its own, and runs the tests that reach it.
func (c *campaign) alone(p *planted) (outcome, error) {
	dir, err := os.MkdirTemp(p.scratch, "alone")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, overlay, binary := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json"),
		filepath.Join(dir, "planted.test")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {p.file: file}})
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(file, p.apply(&p.mutant), 0o600), os.WriteFile(overlay, text, 0o600))
	if err != nil {
		return "", err
	}
	if !p.compile(binary, "-vet=off", "-overlay", overlay) {
		return notBuilt, nil
	}
	return p.judged(binary, 0), nil
}
