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

// jsonFlag is for commands that print one object to programs, and a sentence to people.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// answer prints v, or what it says in words.
func (f jsonFlag) answer(env *environment, v any, format string, args ...any) error {
	if f.JSON {
		return env.printJSON(v)
	}
	_, err := fmt.Fprintf(env.stdout, format, args...)
	return err
}

// show prints v, or calls print.
func (f jsonFlag) show(env *environment, v any, print func(*environment) error) error {
	if f.JSON {
		return env.printJSON(v)
	}
	return print(env)
}

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

// orForce says what to do where a file is not replaced without --force.
const orForce = "name another, or replace it (--force)"

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

// say adds a row of a title and a text.
func (t *table) say(title, format string, args ...any) { t.row(title, fmt.Sprintf(format, args...)) }

// section begins rows of their own, below a title.
func (t *table) section(title string) { fmt.Fprintf(t.w, "\n%s\n", title) }

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
