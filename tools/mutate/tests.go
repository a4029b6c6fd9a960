package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// suite is a package and its own tests.
type suite struct {
	path, folder string
	sources      []*source
	tests        []test // the quickest first
	blocks       []block
	flags        []string // for go test -c
	args         []string // for the test binary
	scratch      string
}

// test is one test function, by itself.
type test struct {
	name string
	took time.Duration
	runs map[block]bool
}

// block is a piece of code that is run as a whole, as cover profiles have it: line and column.
type block struct {
	file                     string // base name
	fromLine, fromCol, line2 int
	col2                     int
}

func (b block) contains(m *mutant) bool {
	after := m.line > b.fromLine || m.line == b.fromLine && m.column >= b.fromCol
	before := m.line < b.line2 || m.line == b.line2 && m.column < b.col2
	return b.file == filepath.Base(m.file) && after && before
}

// goCommand runs the go tool.
func goCommand(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// load lists the packages and parses their files.
func load(patterns []string, skip *regexp.Regexp, flags []string) ([]*suite, error) {
	out, err := goCommand(append(append([]string{"list", "-json=Dir,ImportPath,GoFiles"}, flags...), patterns...)...)
	if err != nil {
		return nil, err
	}
	var list []*suite
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var p struct {
			Dir, ImportPath string
			GoFiles         []string
		}
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		s := &suite{path: p.ImportPath, folder: p.Dir, flags: flags}
		for _, name := range p.GoFiles {
			if skip != nil && skip.MatchString(name) {
				continue
			}
			src, err := parse(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(string(src.text), "// Code generated") {
				s.sources = append(s.sources, src)
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// compile builds the test binary of the package; false where it does not compile.
func (s *suite) compile(to string, extra ...string) bool {
	args := append(append([]string{"test", "-c", "-o", to, "-ldflags", "-s -w"}, s.flags...), extra...)
	cmd := exec.Command("go", append(args, s.path)...)
	return cmd.Run() == nil
}

// measure runs every test by itself, to learn how long it takes and what it covers.
func (s *suite) measure() error {
	binary, profile := filepath.Join(s.scratch, "covered.test"), filepath.Join(s.scratch, "profile")
	if !s.compile(binary, "-cover", "-covermode", "set") {
		return fmt.Errorf("%s: its tests do not compile", s.path)
	}
	if _, err := os.Stat(binary); err != nil { // no test files
		return nil
	}
	names, err := exec.Command(binary, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	seen := map[block]bool{}
	for _, name := range strings.Fields(string(names)) {
		begin := time.Now()
		out, ok := s.run(binary, 10*time.Minute, "-test.run", "^"+name+"$", "-test.coverprofile", profile)
		if !ok {
			return fmt.Errorf("%s: %s fails as it is:\n%s", s.path, name, out)
		}
		t := test{name: name, took: time.Since(begin)}
		text, err := os.ReadFile(profile)
		if err != nil {
			return err
		}
		t.runs = covered(string(text), seen)
		s.tests = append(s.tests, t)
	}
	for b := range seen {
		s.blocks = append(s.blocks, b)
	}
	sort.Slice(s.tests, func(i, j int) bool { return s.tests[i].took < s.tests[j].took })
	return nil
}

// covered reads a cover profile: the blocks that were run, and into seen all that there are.
func covered(profile string, seen map[block]bool) map[block]bool {
	runs := map[block]bool{}
	for _, line := range strings.Split(profile, "\n") {
		name, rest, ok := strings.Cut(line, ".go:")
		f := strings.FieldsFunc(rest, func(r rune) bool { return r == '.' || r == ',' || r == ' ' })
		if !ok || len(f) != 6 {
			continue
		}
		var n [6]int
		for i := range f {
			n[i], _ = strconv.Atoi(f[i])
		}
		b := block{filepath.Base(name) + ".go", n[0], n[1], n[2], n[3]}
		if seen[b] = true; n[5] > 0 {
			runs[b] = true
		}
	}
	return runs
}

// reaching returns the tests that run the code of a mutant; all where no test can be told to, such as for constants.
func (s *suite) reaching(m *mutant) []test {
	var at []block
	for _, b := range s.blocks {
		if b.contains(m) {
			at = append(at, b)
		}
	}
	if len(at) == 0 {
		return s.tests
	}
	var list []test
	for _, t := range s.tests {
		for _, b := range at {
			if t.runs[b] {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

// run runs a test binary in its package's folder; false where a test fails or takes longer than the limit.
func (s *suite) run(binary string, limit time.Duration, args ...string) (string, bool) {
	tmp := filepath.Join(s.scratch, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err.Error(), false
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(append([]string{"-test.timeout", limit.String()}, s.args...),
		args...)...)
	cmd.Dir, cmd.WaitDelay = s.folder, time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// quick is how long tests take that are run together before the others.
const quick = 500 * time.Millisecond

// killed reports whether the tests fail that reach the mutant: first all quick ones, then the others one by one.
func (s *suite) killed(binary string, reaching []test) bool {
	var names []string
	together := time.Duration(0)
	for len(reaching) > 0 && reaching[0].took < quick {
		names, together = append(names, reaching[0].name), together+reaching[0].took
		reaching = reaching[1:]
	}
	failed := func(names string, took time.Duration) bool {
		_, ok := s.run(binary, 10*time.Second+5*took, "-test.failfast", "-test.run", "^("+names+")$")
		return !ok
	}
	if len(names) > 0 && failed(strings.Join(names, "|"), together) {
		return true
	}
	for _, t := range reaching {
		if failed(t.name, t.took) {
			return true
		}
	}
	return false
}
