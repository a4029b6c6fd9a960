// Command testreport reads "go test -json" on standard input, shows what a person wants to see of it (a line a package,
// the output of what failed, the tests that took longest), and keeps the tests honest about what they leave out: a
// skipped test that the list of allowed skips does not name is a failure.
//
// Usage: go test -json ./... | testreport [-allowed FILE] [-any-skip] [-totals FILE]
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	allowed := flag.String("allowed", "", "file that lists the tests that may skip: PACKAGE TEST a line, * matches")
	anySkip := flag.Bool("any-skip", false, "let every test skip")
	totals := flag.String("totals", "", "file to add a line to: passed, failed, skipped")
	flag.Parse()
	r := report{out: os.Stdout, anySkip: *anySkip, output: map[test][]string{}}
	if err := r.run(*allowed, *totals); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !r.finish() {
		os.Exit(1)
	}
}

func (r *report) run(allowed, totals string) error {
	if allowed != "" {
		text, err := os.ReadFile(allowed)
		if err != nil {
			return err
		}
		if r.allowed, err = parseList(string(text)); err != nil {
			return fmt.Errorf("%s: %w", allowed, err)
		}
	}
	if err := r.read(os.Stdin); err != nil || totals == "" {
		return err
	}
	return r.appendTotals(totals)
}

// event is a line of "go test -json".
type event struct {
	Action, Package, Test, Output, ImportPath string
	FailedBuild                               string
	Elapsed                                   float64 // seconds
}

// test names a test; an empty name is the package itself.
type test struct{ pkg, name string }

type pattern struct{ pkg, name string }

type report struct {
	out     io.Writer
	allowed []pattern
	anySkip bool

	output  map[test][]string // what running tests have printed
	passed  int
	failed  []string
	skipped int
	refused []string // skips that are not on the list
	slow    []slowTest
}

// slowTest is a test that takes slowSeconds or more, with its parts.
type slowTest struct {
	test
	seconds float64
}

const (
	slowSeconds = 5
	mostSlow    = 12 // are listed
)

func parseList(text string) ([]pattern, error) {
	var list []pattern
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "pytest" { // nothing, or about the Python tests
			continue
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("line %d: want PACKAGE TEST, got %q", i+1, line)
		}
		for _, p := range f {
			if _, err := path.Match(p, ""); err != nil {
				return nil, fmt.Errorf("line %d: %q: %w", i+1, p, err)
			}
		}
		list = append(list, pattern{f[0], f[1]})
	}
	return list, nil
}

// maySkip reports whether the list names the test or a parent of it. A package pattern is matched with the end of the
// package's path.
func (r *report) maySkip(t test) bool {
	if r.anySkip {
		return true
	}
	for _, p := range r.allowed {
		inPkg := p.pkg == "*" || t.pkg == p.pkg || strings.HasSuffix(t.pkg, "/"+p.pkg)
		for name := t.name; inPkg && name != ""; {
			if ok, _ := path.Match(p.name, name); ok {
				return true
			}
			cut := strings.LastIndexByte(name, '/')
			name = name[:max(cut, 0)]
		}
	}
	return false
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if jsonErr := json.Unmarshal(line, &e); jsonErr != nil {
				fmt.Fprint(r.out, string(line)) // what go prints besides, such as errors of vet
			} else {
				r.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if e.Test == "" && isVerdict(e.Output) {
			fmt.Fprint(r.out, e.Output)
		} else {
			r.output[t] = append(r.output[t], e.Output)
		}
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		if e.Elapsed >= slowSeconds && e.Test != "" && !strings.Contains(e.Test, "/") {
			r.slow = append(r.slow, slowTest{t, e.Elapsed})
		}
		delete(r.output, t)
	case "skip":
		r.skip(t)
	case "fail":
		r.fail(t)
	}
}

// isVerdict tells the lines that go test closes a package with from other output.
func isVerdict(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

func (r *report) skip(t test) {
	if t.name != "" {
		r.skipped++
		if !r.maySkip(t) {
			why := ""
			for _, line := range r.output[t] {
				if s := strings.TrimSpace(line); !strings.HasPrefix(s, "===") && !strings.HasPrefix(s, "---") {
					why += " " + s
				}
			}
			r.refused = append(r.refused, t.pkg+" "+t.name+":"+why)
		}
	}
	delete(r.output, t)
}

func (r *report) fail(t test) {
	for _, line := range r.output[t] {
		fmt.Fprint(r.out, line)
	}
	delete(r.output, t)
	name := t.pkg
	if t.name != "" {
		name += " " + t.name
	}
	r.failed = append(r.failed, name)
}

func (r *report) appendTotals(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, r.passed, len(r.failed), r.skipped); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// finish prints what went wrong and reports whether nothing did.
func (r *report) finish() bool {
	for t, lines := range r.output { // tests that began and did not end: the process died
		if t.name == "" {
			continue
		}
		for _, line := range lines {
			fmt.Fprint(r.out, line)
		}
		r.failed = append(r.failed, t.pkg+" "+t.name+" (did not end)")
	}
	slices.SortFunc(r.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range r.slow[:min(len(r.slow), mostSlow)] {
		fmt.Fprintf(r.out, "slow: %s %s, %.0f s\n", t.pkg, t.name, t.seconds)
	}
	for _, name := range r.failed {
		fmt.Fprintln(r.out, "failed:", name)
	}
	for _, name := range r.refused {
		fmt.Fprintln(r.out, "skipped, but not allowed to:", name)
	}
	fmt.Fprintf(r.out, "%d tests passed, %d failed, %d skipped\n", r.passed, len(r.failed), r.skipped)
	return len(r.failed) == 0 && len(r.refused) == 0 && r.passed > 0
}
