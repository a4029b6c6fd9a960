package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestCellsOfReferencesAreShort has words that a reader takes in at a glance in each cell of a table: code is one word,
// and a list of code is for looking up.
func TestCellsOfReferencesAreShort(t *testing.T) {
	for _, page := range []string{"cli", "convert", "json", "migrating", "python"} {
		seen := 0
		for line, cells := range tables(string(expect.Must(os.ReadFile("../../docs/" + page + ".md"))(t))) {
			for _, cell := range cells {
				n := len(strings.Fields(cell))
				expect.That(t, n <= mostWords, "docs/%s.md:%d: a cell has %d words: %s", page, line, n, cell)
				seen++
			}
		}
		expect.That(t, seen > 10, "docs/%s.md: %d cells were found", page, seen)
	}
}

// tables yields the cells of each row of the tables of a page, by the number of its line. Bars may be at the ends of a
// row, or not.
func tables(page string) func(yield func(int, []string) bool) {
	bars := regexp.MustCompile(`^\|?( *:?-+:? *\|)+( *:?-+:? *)?$`)
	lines := strings.Split(page, "\n")
	return func(yield func(int, []string) bool) {
		for i := 1; i < len(lines); i++ {
			if !bars.MatchString(lines[i]) {
				continue
			}
			for at := i - 1; at < len(lines) && strings.Contains(lines[at], "|"); at++ {
				row := strings.Trim(strings.ReplaceAll(lines[at], `\|`, ""), "|")
				if at != i && !yield(at+1, strings.Split(row, "|")) {
					return
				}
			}
		}
	}
}

func TestTablesAreFoundWithAndWithoutBarsAtTheirEnds(t *testing.T) {
	rows := [][]string{}
	for _, cells := range tables("a | b\n---|---\nc d | `e\\|f`\n\n| g |\n|---|\n| h |\nno | table\n") {
		rows = append(rows, cells)
	}
	expect.Same(t, rows, [][]string{{"a ", " b"}, {"c d ", " `ef`"}, {" g "}, {" h "}, {"no ", " table"}})
}

// TestNamesInJSONAreListed finds the names of what commands print in docs/json.md.
func TestNamesInJSONAreListed(t *testing.T) {
	page := string(expect.Must(os.ReadFile("../../docs/json.md"))(t))
	words := regexp.MustCompile(`\w+`).FindAllString(page, -1)
	for _, result := range []any{addResult{}, benchResult{}, checkResult{}, convertResult{}, diagnosis{}, embedResult{},
		explainResult{}, exportResult{}, generateResult{}, infoResult{}, liveState{}, optionsResult{},
		partitionResult{}, planResult{}, sampleResult{}, batchRecord{}, samplersResult{}, serveReady{}, splitResult{},
		stageResult{}, tasksResult{}, trainResult{}, tuneResult{}, versions{}, optionRecord{}, commandRecord{},
		flagRecord{}, checkProblem{}, samplerRecord{}, samplerOption{}, stageState{}} {
		for _, name := range namesInJSON(reflect.TypeOf(result)) {
			expect.That(t, slices.Contains(words, name), "docs/json.md has no %s of %T", name, result)
		}
	}
}

// namesInJSON returns the names of the fields of a struct, and of structs that it embeds.
func namesInJSON(of reflect.Type) (names []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, namesInJSON(f.Type)...)
		case f.IsExported() && name != "-" && name != "":
			names = append(names, name)
		}
	}
	return names
}
