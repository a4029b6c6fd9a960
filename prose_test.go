//go:build !race

package khop_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dialect has phrases that a native reader must read twice, as regular expressions, and what to write in their place.
// but matches those that are plain English, with the text around them.
var dialect = []struct{ words, but, instead string }{
	{`(\w+ )?\b(is|are|was|were|be) none\b( of\b)?`, `(?i)\bthere (is|are|was|were|be|to be) none\b`,
		`"is invalid", "is not one", "is not one of", "means none"`},
	{`\bso many \w+`, `\bso many (\w+ )?that\b`, `"this number of", the parameter's name, "as many"`},
	{`\b[Ww]hat is (\w+ ){1,4}is\b`, `\bwhat is .*(and|with) what is\b`,
		`a noun as the subject: "the rows that are read", "errors"`},
	{`\bas ([\w']+ ){1,3}(has|have) (it|them)\b`, `\b(long|soon|often|far|much|many) as\b`, `"as in X"`},
	{`\bsaid so\b`, ``, `"reported it"`},
	{`\bas \w+ says? (it|them)\b`, ``, `"as in X", "see X"`},
	{`\bnobody asked\b`, ``, `"not requested", "a default"`},
	{`\bwants? none\b`, ``, `"refuses", "without"`},
	{`\b(as|was|were|is|are|been|be) told\b`, `\btold (apart|from|to)\b`, `"given", "receives", "is reported"`},
	{`\b(was|were|is|are|been|be) said\b`, ``, `"given", "stated", "reported"`},
	{`\b[Ww]hat is left\b`, `\band what is left\b`, `a noun: "the remaining memory", "the rest of the row"`},
}

// TestProseIsPlain looks for the dialect in pages, and in comments of Go, Python, C and CUDA.
func TestProseIsPlain(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(dialect))
	for i, d := range dialect {
		patterns[i] = regexp.MustCompile(d.words)
	}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || p == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		pieces, err := proseOf(p)
		for _, piece := range pieces {
			for i, pattern := range patterns {
				piece.match(t, pattern, i)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// piece is a comment or a paragraph on one line. lines has, for each line of the file, where it begins in the text.
type piece struct {
	file  string
	first int // line
	text  string
	lines []int
}

func (p *piece) add(line string) {
	p.lines = append(p.lines, len(p.text))
	p.text += strings.TrimSpace(line) + " "
}

func (p *piece) match(t *testing.T, pattern *regexp.Regexp, i int) {
	t.Helper()
	for _, at := range pattern.FindAllStringIndex(p.text, -1) {
		around := p.text[max(0, at[0]-20):min(len(p.text), at[1]+20)]
		if but := dialect[i].but; but != "" && regexp.MustCompile(but).MatchString(around) {
			continue
		}
		line, _ := slices.BinarySearch(p.lines, at[0]+1)
		t.Errorf("%s:%d: %q: write %s", p.file, p.first+line-1, p.text[at[0]:at[1]], dialect[i].instead)
	}
}

// written are the endings of files with prose. unread are exceptions: the list above, and what past releases had.
var (
	written = []string{".go", ".py", ".md", ".c", ".h", ".cc", ".cu", ".cuh"}
	unread  = []string{"prose_test.go", "CHANGELOG.md"}
)

// proseOf returns what people read in a file: nothing of most kinds of files.
func proseOf(name string) (pieces []piece, err error) {
	ext := filepath.Ext(name)
	if !slices.Contains(written, ext) || slices.Contains(unread, filepath.ToSlash(name)) {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	switch ext {
	case ".go":
		return goComments(name, text)
	case ".py":
		return byLines(name, string(text), pythonLine()), nil
	case ".md":
		return byLines(name, string(text), markdownLine()), nil
	}
	return byLines(name, string(text), cLine()), nil
}

func goComments(name string, text []byte) (pieces []piece, err error) {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range syntax.Comments {
		for i, c := range group.List {
			p := files.Position(c.Pos())
			if i == 0 || strings.HasPrefix(c.Text, "/*") {
				pieces = append(pieces, piece{file: name, first: p.Line})
			}
			for line := range strings.SplitSeq(strings.TrimPrefix(c.Text, "/*"), "\n") {
				pieces[len(pieces)-1].add(strings.TrimPrefix(line, "//"))
			}
		}
	}
	return pieces, nil
}

// byLines joins lines of prose that follow each other. prose returns what a line has of it; ok is false for nothing.
func byLines(name, text string, prose func(line string) (part string, ok bool)) (pieces []piece) {
	joined := false
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		part, ok := prose(line)
		if !ok {
			joined = false
			continue
		}
		if !joined {
			pieces = append(pieces, piece{file: name, first: n})
			joined = true
		}
		pieces[len(pieces)-1].add(part)
	}
	return pieces
}

var (
	strs     = `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`
	hashes   = regexp.MustCompile(`^(?:` + strs + `|[^"'#])*#+(.*)`)
	slashes  = regexp.MustCompile(`^(?:` + strs + `|[^"'/]|/[^/*])*//+(.*)`)
	opening  = regexp.MustCompile(`^\s*[a-z]*"""(.*)`)
	spans    = regexp.MustCompile("`[^`]*`")
	fences   = regexp.MustCompile("^\\s*(```|~~~)")
	noBlocks = regexp.MustCompile(`^(?:` + strs + `|[^"'/]|/[^/*])*/\*(.*)`)
)

// pythonLine knows comments and docstrings: the strings of three quotes that begin a line.
func pythonLine() func(string) (string, bool) {
	inside := false
	return func(line string) (string, bool) {
		if m := opening.FindStringSubmatch(line); !inside && m != nil {
			text, _, ended := strings.Cut(m[1], `"""`)
			inside = !ended
			return text, true
		}
		if inside {
			text, _, ended := strings.Cut(line, `"""`)
			inside = !ended
			return text, strings.TrimSpace(line) != ""
		}
		m := hashes.FindStringSubmatch(line)
		if m == nil {
			return "", false
		}
		return m[1], true
	}
}

func cLine() func(string) (string, bool) {
	inside := false
	return func(line string) (string, bool) {
		m := noBlocks.FindStringSubmatch(line)
		if !inside && m != nil {
			line, inside = m[1], true
		}
		if inside {
			text, _, ended := strings.Cut(line, "*/")
			inside = !ended
			return strings.TrimLeft(text, " *"), true
		}
		m = slashes.FindStringSubmatch(line)
		if m == nil {
			return "", false
		}
		return m[1], true
	}
}

// markdownLine knows paragraphs; it leaves out code.
func markdownLine() func(string) (string, bool) {
	inside := false
	return func(line string) (string, bool) {
		if fences.MatchString(line) {
			inside = !inside
			return "", false
		}
		if inside || strings.HasPrefix(line, "    ") || strings.TrimSpace(line) == "" {
			return "", false
		}
		return spans.ReplaceAllStringFunc(line, func(s string) string { return strings.Repeat("`", len(s)) }), true
	}
}

// TestPagesStayShort: a page that grows takes as much away elsewhere. Words are what is between spaces.
func TestPagesStayShort(t *testing.T) {
	words := func(pattern string) (n int) {
		pages, _ := filepath.Glob(pattern)
		for _, p := range pages {
			n += len(strings.Fields(read(t, p)))
		}
		return n
	}
	for what, c := range map[string]struct{ have, most int }{
		"words of README.md":    {words("README.md"), 900},
		"words of docs":         {words("docs/*.md") + words("docs/start/*.md"), 45_000},
		"words of docs/results": {words("docs/results/*.md"), 25_000},
		"lines of CHANGELOG.md": {strings.Count(read(t, "CHANGELOG.md"), "\n"), 60},
	} {
		if c.have > c.most {
			t.Errorf("%s: %d, at most %d", what, c.have, c.most)
		}
	}
	before, _, _ := strings.Cut(read(t, "README.md"), "```python\n")
	if line := strings.Count(before, "\n") + 1; line > 25 {
		t.Errorf("Python begins at line %d of README.md", line)
	}
}
