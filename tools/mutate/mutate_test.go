package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `package p

import "errors"

const limit = 3

func f(a, b int) (n int, err error) {
	for i := 0; i < a; i++ {
		if b == 0 || i > limit {
			break
		}
		n += g(a, b)
	}
	defer done()
	if n != 0 {
		return 0, errors.New("bad")
	}
	return min(n, 1), nil
}
`

func TestMutantsAreSmallChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants(s) {
		before, after := s.lines(&m)
		if got = append(got, m.operator+": "+after); before == after || strings.Count(string(s.apply(&m)), "\n") !=
			strings.Count(sample, "\n") {
			t.Errorf("%s: %s becomes %s", m.operator, before, after)
		}
	}
	for _, want := range []string{
		"number: const limit = 4", "number: const limit = 2", "negate: for i := 0; !(i < a); i++ {",
		"boundary: for i := 0; i <= a; i++ {", "increment: for i := 0; i < a; i-- {",
		"operator: if b != 0 || i > limit {", "operator: if b == 0 && i > limit {",
		"negate: if !(b == 0 || i > limit) {", "break: continue", "drop statement: if false { n += g(a, b) }",
		"arithmetic: n -= g(a, b)", "swap arguments: n += g(b, a)", "drop statement: if false { defer done() }",
		"drop error: return 0, nil", "name: return max(n, 1), nil", "number: return min(n, 0), nil",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

// A package with a test that notices some mutants and not others. Each is compiled.
func TestMutantsThatTestsNoticeAreKilled(t *testing.T) {
	if os.Getenv("KHOP_TEST_NIGHT") == "" {
		t.Skip("make nightly runs it")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/p\n\ngo 1.24\n",
		"p.go": "package p\n\nimport \"fmt\"\n\n" +
			"func Abs(x int) int {\n\tif x < 0 {\n\t\treturn -x\n\t}\n\treturn x\n}\n\n" +
			"func Unused(x int) int { return x + 7 }\n\ntype List[T any] struct{ all []T }\n\n" +
			"func (l *List[T]) Add(more ...T) {\n\tl.all = append(l.all, more...)\n}\n\n" +
			"func Len[T any](_ bool, l *List[T]) int { return len(l.all) + 0 }\n\n" +
			"func Wide[T any](x T, n int) []T { return make([]T, n, n+4) }\n\n" +
			"func Next(x int) int { return x + 9 }\n\n" +
			"func say(n int, s string) string { return fmt.Sprintf(\"%d%s\", n, s) }\n",
		"q/q.go": "package q\n",
		// without tests, and of the same name: p's tests run none of its code
		"r/p.go": "package r\n\nimport \"fmt\"\n\n" +
			"func Abs(x int) int {\n\tif x < 0 {\n\t\treturn -x\n\t}\n\treturn x\n}\n\nvar _ = fmt.Sprint\n",
		"q/q_test.go": "package q\n\nimport (\n\t\"testing\"\n\n\t\"example.com/p\"\n)\n\n" +
			"func TestNext(t *testing.T) {\n\tif p.Next(1) != 10 {\n\t\tt.Fail()\n\t}\n}\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestAbs(t *testing.T) {\n\tif Abs(-2) != 2 || " +
			"Abs(2) != 2 {\n\t\tt.Fail()\n\t}\n}\n\nfunc TestList(t *testing.T) {\n\tvar l List[int]\n\t" +
			"if l.Add(1, 2); Len(true, &l) != 2 || cap(Wide(\"\", 3)) != 7 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	c := campaign{n: 100, seed: 1, out: &out, above: []string{"./q"}, known: map[known]bool{{"p.go", "if x < 0 {",
		"if x <= 0 {"}: true}}
	if err := c.run([]string{".", "./r"}); err != nil {
		t.Fatal(err)
	}
	const unused = "func Unused(x int) int { return x + "
	for _, want := range []string{
		"p.go:6: negate: killed", "p.go:6: boundary: equivalent", "p.go:12: operator: not reached",
		"p.go:12: number: not reached\n  - " + unused + "7 }\n  + " + unused + "8 }",
		"p.go:6: number: survived\n  - if x < 0 {\n  + if x < 1 {", " 6 not reached, ",
		"p.go:17: drop statement: killed", "p.go:20: number: killed", "p.go:22: number: killed",
		"p.go:24: number: killed by tests of packages above\n", "r/p.go:6: negate: not reached\n",
		"p.go:26: swap arguments: killed\n",
		", 3 killed by tests of packages above alone ("} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// A mutant that is listed and cannot be planted excuses nothing: its line was changed since.
func TestListedMutantsCanBePlanted(t *testing.T) {
	list, err := readEquivalent(filepath.Join("..", "..", "tests", "equivalent-mutants.txt"))
	if err != nil {
		t.Fatal(err)
	}
	possible := map[string]map[known]bool{} // of each file
	for k := range list {
		if possible[k.file] == nil {
			possible[k.file] = plantable(t, k.file)
		}
		if !possible[k.file][k] {
			t.Errorf("no such mutant: %s | %s | %s", k.file, k.before, k.after)
		}
	}
}

// plantable returns the mutants of a file of the repository, as the list of equivalent ones has them.
func plantable(t *testing.T, file string) map[known]bool {
	s, err := parse(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	all := map[known]bool{}
	for _, m := range mutants(s) {
		before, after := s.lines(&m)
		all[known{file, before, after}] = true
	}
	return all
}
