package runreport

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// groups are the headings of figures, as they follow one another.
var groups = []string{"What was run", "Result", "Speed", "A batch", "Where the time went", "Memory", "Disk", "Data",
	"Energy", "Machine", "Other"}

// hidden is the group of what only the list of raw names has.
const hidden = -1

// rule says of names what group they are of, and what a person calls them. The first that fits holds.
type rule struct {
	group int
	names *regexp.Regexp
	label string // "" for the name in words; $1 is from the name
}

func of(group int, names, label string) rule {
	return rule{group, regexp.MustCompile("^(?:" + names + ")$"), label}
}

var rules = []rule{
	of(hidden, `(report|loading|paths|samplers|sparse|rank|node_types|edge_types|splits|links)\..*|`+
		`(names|edge_columns)\..*|versions\.docs|meters\.seconds|notes\..*\.(change|name|count)`, ""),
	of(0, `options\.(.*)`, "--$1"),
	of(0, `sampler`, "sampler, with its options"),
	of(0, `residence`, "columns are"),
	of(0, `dataset|source|file|kind|model|features|device|batch_size|seed|workers|prefetch|warmup|batches|epochs`, ""),
	of(1, `(train|val|test)_accuracy`, "accuracy, $1"),
	of(1, `loss|best_epoch`, ""),
	of(1, `notes\.(\d+)\.text`, "note $1"),
	of(2, `batches_per_s(econd)?`, "batches a second"),
	of(2, `edges_per_s`, "edges sampled a second"),
	of(2, `rows_per_s`, "rows gathered a second"),
	of(2, `gather_gb_per_s`, "bytes gathered"),
	of(2, `memcpy_gb_per_s`, "plain copies of memory, for comparison"),
	of(2, `ms_per_batch\.(median)`, "time a batch, $1"),
	of(2, `ms_per_batch\.(.*)`, "time a batch, $1"),
	of(2, `seconds`, "time in all"),
	of(3, `(nodes)_per_hop`, "$1 after each hop"),
	of(3, `(edges)_per_hop`, "$1 of each hop"),
	of(3, `(.*)_per_batch`, ""),
	of(4, `(sample|gather|disk)_ms`, "$1, one worker, a batch"),
	of(4, `meters\.cpu_seconds`, "time of all processors"),
	of(5, `memory_estimate`, "memory that the loader expected"),
	of(5, `memory_largest`, "memory if every batch were the largest"),
	of(5, `memory_peak`, "memory of the loader, at most"),
	of(5, `device_memory_peak`, "device memory, at most"),
	of(5, `anon_bytes`, "memory of the whole process"),
	of(5, `file_bytes`, "mapped files in memory"),
	of(5, `memcpy_bytes`, "copied to measure copies"),
	of(6, `(on_disk|topology_on_disk|probe|disk|placed)\..*|temporary_.*|column_bytes|.*(knee|half)_bytes`, ""),
	of(7, `(provenance|columns)\..*|bytes|nodes|edges|.*_edges|`+
		`rows|share|feature_d.*|classes|splits|skipped|direction|id|format|generation`, ""),
	of(8, `meters\.not_measured\.(.*)`, "not measured: $1"),
	of(8, `meters\.(.*)`, "$1"),
	of(9, `versions\.version`, "khop"),
	of(9, `(versions|machine|cuda|cpu)\b.*|kernel`, ""),
}

// ruled returns the group and the label of a name, and which rule it has: figures follow one another as rules do.
func ruled(path string) (group int, label string, place int) {
	for i, r := range rules {
		if m := r.names.FindStringSubmatchIndex(path); m != nil {
			if r.label != "" {
				path = string(r.names.ExpandString(nil, r.label, path, m))
			}
			return r.group, spelled(path), i
		}
	}
	return len(groups) - 1, spelled(path), len(rules)
}

var wordsOf = strings.NewReplacer("_", " ", ".", ": ", "gb per s", "GB/s")

// spelled writes a name in words, and that of an option as a flag.
func spelled(name string) string {
	if strings.HasPrefix(name, "--") {
		return strings.ReplaceAll(name, "_", "-")
	}
	return wordsOf.Replace(name)
}

// units are by the ends of names.
var units = []struct {
	names *regexp.Regexp
	write func(v float64) string
}{
	{regexp.MustCompile(`gb_per_s$`), func(v float64) string { return digits(v) + " GB/s" }},
	{regexp.MustCompile(`bytes_per_s(econd)?$`), func(v float64) string { return size(v) + "/s" }},
	{regexp.MustCompile(`_per_s(econd)?$`), many},
	{regexp.MustCompile(`(^|[._])bytes(_per_batch)?$|^memory_|memory_peak$|^temporary_`), size},
	{regexp.MustCompile(`(^|[._])seconds$`), span},
	{regexp.MustCompile(`_ms$|ms_per_batch`), func(v float64) string { return span(v / 1e3) }},
	{regexp.MustCompile(`_ns$`), func(v float64) string { return span(v / 1e9) }},
	{regexp.MustCompile(`joules$`), func(v float64) string { return digits(v) + " J" }},
	{regexp.MustCompile(`percent$`), func(v float64) string { return digits(v) + " %" }},
	{regexp.MustCompile(`accuracy$|share$|waited$`), func(v float64) string { return digits(100*v) + " %" }},
}

// shown writes a value as a person reads it.
func shown(path string, v value) string {
	switch v.raw {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	if !v.is {
		var words []string
		for _, n := range v.list[:min(len(v.list), mostListed)] {
			words = append(words, digits(n))
		}
		return cmp.Or(strings.Join(words, ", "), v.raw)
	}
	for _, u := range units {
		if u.names.MatchString(path) {
			return u.write(v.number)
		}
	}
	if strings.HasSuffix(path, "seed") {
		return v.raw
	}
	return digits(v.number)
}

// digits writes a number with three digits or more.
func digits(v float64) string {
	switch magnitude := math.Abs(v); {
	case magnitude >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case magnitude >= 100 || v == math.Trunc(v):
		return humanize.Comma(int64(math.Round(v)))
	case magnitude < 1e-3:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(magnitude))), 64)
	}
}

// many writes a large number in words.
func many(v float64) string {
	switch {
	case v >= 1e9:
		return digits(v/1e9) + " billion"
	case v >= 1e6:
		return digits(v/1e6) + " million"
	}
	return digits(v)
}

// scaled writes a number in the largest unit of which there is one. Each is a thousand of the one before.
func scaled(v float64, units ...string) string {
	i := 0
	for ; i < len(units)-1 && math.Abs(v) >= 999.5; i++ {
		v /= 1000
	}
	return digits(v) + " " + units[i]
}

// none stands for "no bound", in bytes.
const none = 1 << 62

func size(v float64) string {
	if v >= none {
		return "no limit"
	}
	return scaled(v, "B", "kB", "MB", "GB", "TB", "PB")
}

// span writes a time.
func span(seconds float64) string {
	if seconds >= 120 {
		return fmt.Sprintf("%.0f min %02.0f s", math.Floor(seconds/60), math.Floor(math.Mod(seconds, 60)))
	}
	return scaled(seconds*1e9, "ns", "µs", "ms", "s")
}

// figure is a line of a table: what runs have of a name.
type figure struct {
	Label, Path string
	Cells       []cell
	group       int
	place       int // which rule it has
}

// cell is what one run has.
type cell struct {
	Text, Raw string
	Ratio     string // to the first run; "" for none
	ratio     float64
}

// Differs reports whether all runs have a value, or could, and not the same.
func (f figure) Differs() bool {
	return !slices.ContainsFunc(f.Cells, func(c cell) bool { return c.Text == "" }) &&
		slices.ContainsFunc(f.Cells, func(c cell) bool { return c.Raw != f.Cells[0].Raw })
}

// figures returns the figures of runs, by groups; one of those that are printed twice is hidden.
func figures(runs []*Run) (list []figure) {
	seen := map[string]bool{}
	for _, r := range runs {
		for path := range r.Values {
			if seen[path] {
				continue
			}
			seen[path] = true
			f := figure{Path: path}
			if f.group, f.Label, f.place = ruled(path); r.doubled(path) {
				f.group = hidden
			}
			for _, r := range runs {
				f.Cells = append(f.Cells, cellOf(path, r, runs[0]))
			}
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b figure) int {
		return cmp.Or(a.group-b.group, a.place-b.place, strings.Compare(a.Label, b.Label),
			strings.Compare(a.Path, b.Path))
	})
	return list
}

// doubled reports whether options say the same.
func (r *Run) doubled(path string) bool {
	option, ok := r.Values["options."+path]
	return ok && (path == "sampler" || option.raw == r.Values[path].raw)
}

// cellOf is what a run has of a name, beside the first run.
func cellOf(path string, r, first *Run) cell {
	v, was := r.Values[path], first.Values[path]
	c := cell{Text: shown(path, v), Raw: v.raw}
	switch {
	case v.raw == "" && strings.HasPrefix(path, "options.") && r.Options != "":
		c.Text = "not given"
	case v.number > 0 && was.number > 0 && v.number != was.number && !chosen(path) && alike(r, first):
		c.Ratio, c.ratio = "×"+digits(v.number/was.number), v.number/was.number
	}
	return c
}

// alike reports whether runs are of one kind: they have half of the names in common.
func alike(a, b *Run) bool {
	common := 0
	for path := range a.Values {
		if _, ok := b.Values[path]; ok {
			common++
		}
	}
	return 2*common >= max(len(a.Values), len(b.Values))
}

// chosen reports whether a person has chosen a value, rather than measured it.
func chosen(path string) bool {
	group, _, _ := ruled(path)
	return group == 0
}
