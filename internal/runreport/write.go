package runreport

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// mark begins every file.
const mark = "<!-- khop report 1 -->\n"

// Output is the file that a report is written to: it replaces a report, and other files with force. Where there is
// another file, remedy says what to do.
func Output(path string, force bool, remedy string, read ...string) wholefile.Output {
	return wholefile.Output{Path: path, Mode: 0o644, Ours: wholefile.Begins(mark), Force: force, Else: remedy,
		From: read}
}

const head = mark + `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><link rel="icon" href="data:,">
<title>khop report</title><style>
:root { --line: #d9dde5; --soft: #596275; --mark: #1f5fbf; --card: #fff; --paper: #f5f6f8; --ink: #1d2433; }
@media (prefers-color-scheme: dark) { :root { --line: #353d4b; --soft: #a3adbf; --mark: #7fb0ff; --card: #1e242e;
  --paper: #14181f; --ink: #e8ebf1; } }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; background: var(--paper);
  color: var(--ink); }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .2rem 1rem 1rem;
  margin: 0 0 1rem; break-inside: avoid; }
.said { border-left: .3rem solid var(--mark); padding-left: .8rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line); font-weight: normal; }
thead th, .soft { color: var(--soft); } pre { overflow-x: auto; font-size: .85rem; }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
.plots svg { width: 100%; height: auto; max-width: 44rem; border-radius: .3rem; }
div > svg[height] { width: 100%; max-width: 44rem; display: block; } .bar { fill: var(--mark); }
:focus-visible { outline: .2rem solid var(--mark); }
@media print { body { background: none; } section { border: none; padding: 0; } details > * { display: block; } }
</style></head><body><main><h1>khop report</h1>
`

// Write writes a report of runs.
func Write(to io.Writer, runs []*Run) error {
	w := bufio.NewWriter(to)
	_, _ = w.WriteString(head)
	for _, r := range runs {
		if err := r.write(w); err != nil {
			return err
		}
	}
	differ, same := divided(runs)
	if len(runs) > 1 {
		table(w, "What differs", runs, differ, true)
	}
	table(w, "All values", runs, same, len(runs) == 1)
	_, _ = w.WriteString("</main></body></html>\n")
	return w.Flush()
}

func (r *Run) write(w *bufio.Writer) error {
	fmt.Fprintf(w, "<section><h2>%s</h2>\n", html.EscapeString(r.Name))
	if r.Said != "" {
		fmt.Fprintf(w, "<p class=\"said\">%s</p>\n", html.EscapeString(r.Said))
	}
	r.bars(w)
	_, _ = w.WriteString("<div class=\"plots\">")
	for i := range r.Plots {
		if err := r.Plots[i : i+1].SVG(w); err != nil {
			return err
		}
	}
	_, _ = w.WriteString("</div>\n")
	if r.Options != "" {
		fmt.Fprintf(w, "<details open><summary>Options, for khop serve --config</summary><pre>%s</pre></details>\n",
			html.EscapeString(r.Options))
	}
	_, _ = w.WriteString("</section>\n")
	return nil
}

// bars draws how long stages take.
func (r *Run) bars(w *bufio.Writer) {
	most := 0.0
	for _, s := range r.Stages {
		most = max(most, s.Ms)
	}
	for _, s := range r.Stages {
		fmt.Fprintf(w, "<div>%s: %.2f ms a worker and batch<svg viewBox=\"0 0 100 1\" height=\"10\" "+
			"preserveAspectRatio=\"none\" aria-hidden=\"true\">"+
			"<rect class=\"bar\" width=\"%.1f\" height=\"1\"/></svg></div>\n",
			html.EscapeString(s.Name), s.Ms, 100*s.Ms/most)
	}
}

// divided returns the values that differ between runs, and the others.
func divided(runs []*Run) (differ, same []string) {
	all := map[string]bool{}
	for _, r := range runs {
		for key := range r.Values {
			all[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		other := slices.ContainsFunc(runs, func(r *Run) bool { return r.Values[key] != runs[0].Values[key] })
		if other {
			differ = append(differ, key)
		} else {
			same = append(same, key)
		}
	}
	return differ, same
}

// table writes values of all runs side by side.
func table(w *bufio.Writer, title string, runs []*Run, keys []string, open bool) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(w, "<section><details%s><summary>%s</summary><div class=\"scroll\" tabindex=\"0\"><table><thead>"+
		"<tr><th>name</th>", map[bool]string{true: " open"}[open], title)
	for _, r := range runs {
		fmt.Fprintf(w, "<th>%s</th>", html.EscapeString(r.Name))
	}
	_, _ = w.WriteString("</tr></thead><tbody>\n")
	for _, key := range keys {
		fmt.Fprintf(w, "<tr><th>%s</th>", html.EscapeString(strings.ReplaceAll(key, "_", " ")))
		for _, r := range runs {
			fmt.Fprintf(w, "<td>%s</td>", html.EscapeString(r.Values[key]))
		}
		_, _ = w.WriteString("</tr>\n")
	}
	_, _ = w.WriteString("</tbody></table></div></details></section>\n")
}
