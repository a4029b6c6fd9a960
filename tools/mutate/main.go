// Command mutate plants small bugs in packages, one at a time, and lists those that the packages' own tests miss: a
// negated condition, a comparison off by one, a statement left out, an error dropped.
//
// It draws a sample of all mutants by a seed. They are compiled as an overlay, so the tree is never touched, as many in
// one binary as may be. Each is given to the tests that reach it, the quickest first. One that does not compile counts
// for nothing, one that no test reaches survives. Those that survive go to the tests of packages above, where -above
// names some, and count apart. A file lists mutants that change nothing that can be seen, each with a reason.
//
// Usage: mutate [-n 100] [-seed 1] [-skip REGEXP] [-leave REGEXP] [-equivalent FILE] [-above PACKAGE,...] [-short]
// [-tags TAGS] PACKAGE...
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
	"sync"
)

func main() {
	c := campaign{out: os.Stdout}
	pattern := func(to **regexp.Regexp, name, usage string) {
		flag.Func(name, usage, func(text string) (err error) {
			if text != "" {
				*to, err = regexp.Compile(text)
			}
			return err
		})
	}
	flag.IntVar(&c.n, "n", 100, "mutants to try")
	flag.Uint64Var(&c.seed, "seed", 1, "of the sample")
	pattern(&c.skip, "skip", "files to leave out: a regular expression of their names")
	equivalent := flag.String("equivalent", "", "list of equivalent mutants: FILE | BEFORE | AFTER | REASON a line")
	pattern(&c.leave, "leave", "lines to leave out: a regular expression, such as prefetch")
	pattern(&c.only, "only", "mutants to try: a regular expression of FILE:LINE OPERATOR")
	above := flag.String("above", "", "packages whose tests get what the package's own tests miss, with commas between")
	short := flag.Bool("short", false, "run the tests with -short")
	tags := flag.String("tags", "", "build tags")
	flag.Parse()
	c.flags = []string{"-tags", *tags}
	if *above != "" {
		c.above = strings.Split(*above, ",")
	}
	if *short {
		c.args = []string{"-test.short"}
	}
	var err error
	if c.known, err = readEquivalent(*equivalent); err == nil {
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
	above       []string // packages
	root        string
	out         io.Writer

	building sync.Mutex // one builds and measures at a time
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
	above      outcome = "killed by tests of packages above"
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
	suites, err := c.load(patterns, scratch)
	if err != nil {
		return err
	}
	var all []planted
	for _, s := range suites {
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
			if o.outcome == survived || o.outcome == notReached || o.outcome == above {
				before, after := m.lines(&m.mutant)
				fmt.Fprintf(c.out, "  - %s\n  + %s\n", before, after)
			}
		}
	}
	count := tried - counts[listed]
	share := func(n int) float64 { return 100 * float64(n) / float64(max(count, 1)) }
	fmt.Fprintf(c.out, "%d possible, %d tried, %d equivalent; of %d others %d killed, %d not reached, %d survived",
		len(all), tried, counts[listed], count, counts[killed], counts[notReached], counts[survived])
	if c.above != nil {
		fmt.Fprintf(c.out, ", %d killed by tests of packages above alone (%.0f %% with them)", counts[above],
			share(counts[killed]+counts[above]))
	}
	_, err := fmt.Fprintf(c.out, " (%.0f %%)\n", share(counts[killed]))
	return err
}

// told is an outcome, or why there is none.
type told struct {
	outcome
	err error
}

// shared are mutants of a package that share binaries, one for the tests of each package.
type shared struct {
	list     []*numbered
	binaries map[*tester]string
}

// outcomes plants a batch of mutants: in one binary for each package those that can be there, the others by themselves.
// Two are tried at a time.
func (c *campaign) outcomes(batch []*numbered) ([]chan told, error) {
	groups := map[*suite]*shared{}
	for i, m := range batch {
		if m.shares = m.copyable(m.in) && !c.isKnown(m.planted); m.shares {
			m.number = i + 1
			if groups[m.suite] == nil {
				groups[m.suite] = &shared{binaries: map[*tester]string{}}
			}
			groups[m.suite].list = append(groups[m.suite].list, m)
		}
	}
	for s, g := range groups {
		if _, err := c.binary(s.testers[0], g); err != nil { // it takes the numbers from what does not compile
			return nil, err
		}
	}
	list, places := make([]chan told, len(batch)), make(chan bool, 2)
	for i, m := range batch {
		list[i] = make(chan told, 1)
		go func() {
			places <- true
			defer func() { <-places }()
			o, err := c.outcome(m, groups[m.suite])
			list[i] <- told{o, err}
		}()
	}
	return list, nil
}

// binary builds the mutants that share a binary, once for the tests of each package.
func (c *campaign) binary(t *tester, g *shared) (string, error) {
	c.building.Lock()
	defer c.building.Unlock()
	path, built := g.binaries[t]
	if built {
		return path, nil
	}
	path, err := t.build(g.list)
	g.binaries[t] = path
	return path, err
}

// outcome tries one mutant.
func (c *campaign) outcome(m *numbered, g *shared) (outcome, error) {
	switch {
	case c.isKnown(m.planted):
		return listed, nil
	case !m.shares:
		return c.alone(m.planted)
	case m.number == 0:
		return notBuilt, nil
	default:
		return c.judged(m.planted, m.number, func(t *tester) (string, error) { return c.binary(t, g) })
	}
}

// judged runs the tests that reach a mutant: those of its own package, and then of packages above.
func (c *campaign) judged(p *planted, number int, build func(*tester) (string, error)) (outcome, error) {
	judgement := notReached
	for i, t := range p.testers {
		if err := c.measure(t); err != nil {
			return "", err
		}
		reaching := t.reaching(&p.mutant)
		if i > 0 && len(reaching) == 0 {
			continue
		}
		binary, err := build(t)
		if err != nil || binary == "" {
			return notBuilt, err
		}
		if len(reaching) > 0 {
			judgement = survived
		}
		if t.killed(binary, number, reaching) {
			return [2]outcome{killed, above}[min(i, 1)], nil
		}
	}
	if p.operator == "swap arguments" && !c.passesVet(p) {
		return killed, nil
	}
	return judgement, nil
}

// passesVet reports whether go test, which vets what it tests, runs the tests of a package with a mutant.
func (c *campaign) passesVet(p *planted) bool {
	dir, err := os.MkdirTemp(p.testers[0].scratch, "vet")
	if err != nil {
		return true
	}
	defer os.RemoveAll(dir)
	overlay, err := p.overlay(dir)
	if err != nil {
		return true
	}
	_, err = goCommand(append(append([]string{"vet", "-printf", "-overlay", overlay}, c.flags...), p.suite.path)...)
	return err == nil
}

// overlay writes the file with a mutant, and the list of it that the go tool reads.
func (p *planted) overlay(dir string) (string, error) {
	file, list := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {p.file: file}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(file, p.apply(&p.mutant), 0o600), os.WriteFile(list, text, 0o600))
}

// measure measures tests, once.
func (c *campaign) measure(t *tester) error {
	c.building.Lock()
	defer c.building.Unlock()
	return t.measure()
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
	dir, err := os.MkdirTemp(p.testers[0].scratch, "alone")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := p.overlay(dir)
	if err != nil {
		return "", err
	}
	return c.judged(p, 0, func(t *tester) (string, error) {
		binary := filepath.Join(dir, filepath.Base(t.folder)+".test")
		if !t.compile(binary, "-vet=off", "-overlay", overlay) {
			return "", nil
		}
		return binary, nil
	})
}
