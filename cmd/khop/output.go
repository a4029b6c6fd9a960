package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/khop-gnn/khop/internal/paths"
)

// printJSON writes v as one JSON object and a newline, indented.
func (env *environment) printJSON(v any) error {
	e := json.NewEncoder(env.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printJSONLine writes v as one line of JSON, for streams.
func (env *environment) printJSONLine(v any) error {
	e := json.NewEncoder(env.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// note tells the user something that is not a result: one line on stderr.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintf(env.stderr, "khop: %s\n", paths.Message(fmt.Sprintf(format, args...)))
}

// table aligns rows of cells.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// durationText rounds to what a person reads.
func durationText(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
