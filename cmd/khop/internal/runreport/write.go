package runreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/cmd/khop/internal/plot"
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

//go:embed page.html
var page string

var pageOf = template.Must(template.New("page").Parse(page))

// group is figures under a heading.
type group struct {
	Title   string
	Columns int
	Figures []figure
}

// shownRun is a run on the page.
type shownRun struct {
	*Run
	Verdict string
	Tiles   []figure
	Plots   []template.HTML
}

// The size of a plot, in pixels: two stand beside one another where a page is wide.
const plotWidth, plotHeight = 440, 290

// Write writes a report of runs.
func Write(to io.Writer, runs []*Run) error {
	all := figures(runs)
	data := struct {
		Runs    []*Run
		Cards   []shownRun
		Changes []group
		Faster  []string
		Groups  []group
		Raw     []figure
		Style   template.CSS
	}{Runs: runs, Style: template.CSS(plot.Style()), Faster: faster(runs)}
	for i, r := range runs {
		s := shownRun{Run: r, Verdict: r.verdict(), Tiles: r.tiles(all, i)}
		for _, p := range r.Plots {
			var b strings.Builder
			if err := p.Inline(&b, plotWidth, plotHeight); err != nil {
				return err
			}
			s.Plots = append(s.Plots, template.HTML(b.String()))
		}
		if s.Verdict != "" || s.Tiles != nil || s.Plots != nil || s.Options != "" {
			data.Cards = append(data.Cards, s)
		}
	}
	data.Groups = grouped(all, func(f figure) bool { return f.group != hidden })
	if !slices.ContainsFunc(runs, func(r *Run) bool { return !alike(r, runs[0]) }) {
		data.Changes = grouped(all, changed)
	}
	slices.SortFunc(all, func(a, b figure) int { return strings.Compare(a.Path, b.Path) })
	data.Raw = all
	if _, err := io.WriteString(to, mark); err != nil {
		return err
	}
	return pageOf.Execute(to, data)
}

// grouped returns the figures that are wanted, under their headings.
func grouped(all []figure, wanted func(figure) bool) (list []group) {
	for _, f := range all {
		if !wanted(f) {
			continue
		}
		if title := groups[f.group]; len(list) == 0 || list[len(list)-1].Title != title {
			list = append(list, group{Title: title, Columns: len(f.Cells) + 1})
		}
		last := &list[len(list)-1]
		last.Figures = append(last.Figures, f)
	}
	return list
}

// least is the ratio below which a figure counts as the same.
const least = 1.01

// changed reports whether a figure is one to compare: it is no number, or differs by 1 %.
func changed(f figure) bool {
	return f.group != hidden && f.Differs() && slices.ContainsFunc(f.Cells, func(c cell) bool {
		return c.Raw != f.Cells[0].Raw && (c.Ratio == "" || math.Abs(math.Log(c.ratio)) > math.Log(least))
	})
}

// faster says how runs compare with the first.
func faster(runs []*Run) (said []string) {
	first := runs[0].number("batches_per_s")
	for _, r := range runs[1:] {
		if rate := r.number("batches_per_s"); rate > 0 && first > 0 {
			said = append(said, fmt.Sprintf("%s made %s times as many batches a second as %s: %s, and %s.", r.Name,
				digits(rate/first), runs[0].Name, digits(rate), digits(first)))
		}
	}
	return said
}

// verdict is what the run comes to, in a sentence or two.
func (r *Run) verdict() string {
	has := func(name string) bool { return r.Values[name].is }
	text := func(name string) string { return shown(name, r.Values[name]) }
	var said string
	switch {
	case has("batches_per_s"):
		said = fmt.Sprintf("%s batches a second: %s a batch (median). The loader took %s of memory at most.",
			digits(r.number("batches_per_s")), text("ms_per_batch.median"), text("memory_peak"))
		if r.Said == "" {
			said += " khop advises no change."
		}
	case has("test_accuracy") && has("best_epoch"):
		said = fmt.Sprintf("%s: test accuracy %s, validation %s (epoch %s of %s), in %s.", text("model"),
			text("test_accuracy"), text("val_accuracy"), text("best_epoch"), text("epochs"), text("seconds"))
	case has("nodes") && has("edges"):
		said = fmt.Sprintf("%s: %s nodes, %s edges, %s.", path.Base(text("dataset")), text("nodes"), text("edges"),
			text("bytes"))
	}
	return strings.TrimSpace(said + " " + r.Said)
}

// tiles returns the figures of a run to see first.
func (r *Run) tiles(all []figure, i int) (list []figure) {
	for _, path := range []string{"batches_per_s", "ms_per_batch.median", "edges_per_s", "memory_peak", "test_accuracy",
		"val_accuracy", "loss", "seconds", "nodes", "edges", "classes", "bytes"} {
		at := slices.IndexFunc(all, func(f figure) bool { return f.Path == path && f.Cells[i].Raw != "" })
		if at >= 0 && len(list) < 4 {
			f := all[at]
			f.Cells = f.Cells[i : i+1]
			list = append(list, f)
		}
	}
	return list
}
