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

// note tells the user something that is no result: one line on stderr.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintf(env.stderr, "khop: "+format+"\n", args...)
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

// bytesText writes a size in both units that people use: "1.50 GB (1.40 GiB)"; small ones in MB, kB or bytes.
func bytesText(n int64) string {
	switch f := float64(n); {
	case n < 0:
		return "-" + bytesText(-n)
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB (%.1f KiB)", f/1e3, f/(1<<10))
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB (%.1f MiB)", f/1e6, f/(1<<20))
	default:
		return fmt.Sprintf("%.2f GB (%.2f GiB)", f/1e9, f/(1<<30))
	}
}

// countText groups digits: "123,718,280".
func countText(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

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
