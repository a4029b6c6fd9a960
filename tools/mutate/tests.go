package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/cover"
)

// suite is a package and the tests that may notice what is planted there: its own, then those of packages above it.
type suite struct {
	path, folder string
	sources      []*source
	testers      []*tester
}

// tester is the tests of a package.
type tester struct {
	of           *suite
	path, folder string
	ready        bool // it is measured
	measured
	flags   []string // for go test -c
	args    []string // for the test binary
	scratch string

	mu     sync.Mutex
	passed map[string]bool // binary and test: whether it passes without a mutant
}

// measured is what is known of a package's tests.
type measured struct {
	Tests  []test // the quickest first
	Blocks []block
}

// test is one test function, by itself.
type test struct {
	Name string
	Took time.Duration
	Runs []int // of the blocks
}

// block is a piece of code that is run as a whole, as in cover profiles: line and column.
type block struct {
	File                     string // as the profile names it: the path of the package and a name
	FromLine, FromCol, Line2 int
	Col2                     int
}

func (b block) contains(file string, m *mutant) bool {
	after := m.line > b.FromLine || m.line == b.FromLine && m.column >= b.FromCol
	before := m.line < b.Line2 || m.line == b.Line2 && m.column < b.Col2
	return b.File == file && after && before
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

// listedPackage is a package, as go list tells of it.
type listedPackage struct {
	Dir, ImportPath string
	GoFiles         []string
}

// list lists packages.
func list(patterns, flags []string) (all []listedPackage, err error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	out, err := goCommand(append(append([]string{"list", "-json=Dir,ImportPath,GoFiles"}, flags...), patterns...)...)
	for d := json.NewDecoder(strings.NewReader(out)); err == nil && d.More(); {
		var p listedPackage
		err = d.Decode(&p)
		all = append(all, p)
	}
	return all, err
}

// load lists the packages and those above, and parses the files of the former.
func (c *campaign) load(patterns []string, scratch string) ([]*suite, error) {
	packages, err := list(patterns, c.flags)
	if err != nil {
		return nil, err
	}
	above, err := list(c.above, c.flags)
	if err != nil {
		return nil, err
	}
	var suites []*suite
	for _, p := range packages {
		s := &suite{path: p.ImportPath, folder: p.Dir}
		for _, by := range append([]listedPackage{p}, above...) {
			if len(s.testers) == 0 || by.ImportPath != p.ImportPath {
				s.testers = append(s.testers, &tester{of: s, path: by.ImportPath, folder: by.Dir, flags: c.flags,
					args: c.args, scratch: scratch})
			}
		}
		for _, name := range p.GoFiles {
			if c.skip != nil && c.skip.MatchString(name) {
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
		suites = append(suites, s)
	}
	return suites, nil
}

// compile builds the test binary; false where it does not compile.
func (s *tester) compile(to string, extra ...string) bool {
	args := append(append([]string{"test", "-c", "-o", to, "-ldflags", "-s -w"}, s.flags...), extra...)
	cmd := exec.Command("go", append(args, s.path)...)
	return cmd.Run() == nil
}

// measure runs every test by itself, to learn how long it takes and what it covers of the package. It keeps what it has
// learned of a binary in the user's folder of caches.
func (s *tester) measure() error {
	if s.ready {
		return nil
	}
	s.ready = true
	binary := s.folderOf() + "--covered--" + strings.ReplaceAll(s.path, "/", "_") + ".test"
	if !s.compile(binary, "-cover", "-covermode", "set", "-coverpkg", s.of.path) {
		return fmt.Errorf("%s: its tests do not compile", s.path)
	}
	text, err := os.ReadFile(binary)
	if errors.Is(err, fs.ErrNotExist) { // no test files
		return nil
	}
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append(text, strings.Join(s.args, " ")...))
	cache = filepath.Join(cache, "khop-mutate", "2-"+hex.EncodeToString(sum[:])) // 2: blocks have paths of packages
	known, err := os.ReadFile(cache)
	if err != nil || json.Unmarshal(known, &s.measured) != nil {
		if err := s.measureAll(binary); err != nil {
			return err
		}
		if known, err = json.Marshal(&s.measured); err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(cache), 0o700), os.WriteFile(cache, known, 0o600)); err != nil {
			return err
		}
	}
	slices.SortFunc(s.Tests, func(a, b test) int { return cmp.Compare(a.Took, b.Took) })
	return nil
}

func (s *tester) measureAll(binary string) error {
	names, err := exec.Command(binary, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	profile, number := filepath.Join(s.scratch, "profile"), map[block]int{}
	for _, name := range strings.Fields(string(names)) {
		begin := time.Now()
		out, ok := s.run(binary, 0, 10*time.Minute, "-test.run", "^"+name+"$", "-test.coverprofile", profile)
		if !ok {
			return fmt.Errorf("%s: %s fails as it is:\n%s", s.path, name, out)
		}
		t := test{Name: name, Took: time.Since(begin)}
		files, err := cover.ParseProfiles(profile)
		if err != nil {
			return err
		}
		for _, f := range files {
			for _, b := range f.Blocks {
				at := block{f.FileName, b.StartLine, b.StartCol, b.EndLine, b.EndCol}
				i, ok := number[at]
				if !ok {
					i = len(s.Blocks)
					number[at] = i
					s.Blocks = append(s.Blocks, at)
				}
				if b.Count > 0 {
					t.Runs = append(t.Runs, i)
				}
			}
		}
		s.Tests = append(s.Tests, t)
	}
	return nil
}

// reaching returns the tests that run the code of a mutant: all where coverage does not show which do, such as for
// constants, and none where the program has nothing of the package.
func (s *tester) reaching(m *mutant) []test {
	at := map[int]bool{}
	for i, b := range s.Blocks {
		if b.contains(s.of.path+"/"+filepath.Base(m.file), m) {
			at[i] = true
		}
	}
	if len(s.Blocks) == 0 && s.path != s.of.path {
		return nil
	}
	if len(at) == 0 {
		return s.Tests
	}
	var list []test
	for _, t := range s.Tests {
		if slices.ContainsFunc(t.Runs, func(i int) bool { return at[i] }) {
			list = append(list, t)
		}
	}
	return list
}

// run runs a test binary in its package's folder, with a mutant of it where there are several; false where a test fails
// or takes longer than the limit.
func (s *tester) run(binary string, number int, limit time.Duration, args ...string) (string, bool) {
	tmp, err := os.MkdirTemp(s.scratch, "t")
	if err != nil {
		return err.Error(), false
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(append([]string{"-test.timeout", limit.String()}, s.args...),
		args...)...)
	cmd.Dir, cmd.WaitDelay = s.folder, time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, fmt.Sprintf("%s=%d", chosen, number))
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// quick is how long tests take together that are run in one process.
const quick = 2 * time.Second

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// killed reports whether tests fail that reach the mutant, the quickest first. A test that fails without the mutant as
// well, in a binary of many, does not count.
func (s *tester) killed(binary string, number int, reaching []test) bool {
	for len(reaching) > 0 {
		names, together := []string{reaching[0].Name}, reaching[0].Took
		for _, t := range reaching[1:] {
			if together += t.Took; together > quick {
				break
			}
			names = append(names, t.Name)
		}
		reaching = reaching[len(names):]
		for len(names) > 0 {
			out, ok := s.run(binary, number, 10*time.Second+3*together, "-test.failfast", "-test.run",
				"^("+strings.Join(names, "|")+")$")
			if ok {
				break
			}
			f := failure.FindStringSubmatch(out)
			if f == nil || number == 0 || s.passes(binary, f[1]) {
				return true
			}
			names = slices.DeleteFunc(names, func(n string) bool { return n == f[1] })
		}
	}
	return false
}

// passes reports whether a test passes in a binary without its mutants.
func (s *tester) passes(binary, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	passes, known := s.passed[binary+name]
	if !known {
		_, passes = s.run(binary, 0, 10*time.Minute, "-test.run", "^"+name+"$")
		if s.passed == nil {
			s.passed = map[string]bool{}
		}
		s.passed[binary+name] = passes
	}
	return passes
}
