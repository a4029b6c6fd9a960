package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/option"
)

// headings are those below which help lists options, by the options' paths in Go, of commands that have many. Options
// that are not named stand first, below no heading; of commands that load batches see loadHeading.
var headings = map[string]map[string]string{
	"convert": {
		"Source:": "From Columns IDs Header Null Encoding SkipBad Features Labels Feature Label Keep " +
			"RelationsAsTypes UpTo Task",
		"Edges:":   "Direction Merge Loops ByTime",
		"Times:":   "TimeUnit TimesIn",
		"Storage:": "FeatureDType RowStride Reorder",
	},
}

// loads are the commands that load batches.
var loads = []string{"bench", "plan", "sample", "serve"}

// heading returns the heading of an option in the help of a command; "" means no heading.
func heading(door string, o *option.Option) string {
	if slices.Contains(loads, door) {
		return loadHeading(o)
	}
	for title, paths := range headings[door] {
		if slices.Contains(strings.Fields(paths), o.Path) {
			return title
		}
	}
	return ""
}

// loadHeading returns the heading of an option of loading.
func loadHeading(o *option.Option) string {
	const memory, device = "Memory and disk:", "Device:"
	switch neighbours := []string{"neighbor", "labor", "shadow"}; {
	case slices.ContainsFunc(neighbours, func(sampler string) bool { return slices.Contains(o.For, sampler) }):
		return "Neighbours:"
	case slices.Equal(o.For, []string{"temporal"}):
		return "Times, for temporal:"
	case o.For != nil:
		return "Other samplers:"
	}
	switch o.Path {
	case "Workers", "Tuning.Prefetch", "Residence", "RowsFrom", "Verify", "MaxMemory", "CacheDir", "CacheSize":
		return memory
	case "Tuning.Trace":
		return ""
	}
	return map[string]string{"": "Seeds and batches:", "links": "Seeds that are edges:", "columns": "Rows:",
		"disk": memory, "device": device, "tuning": device, "server": ""}[o.Group]
}

// helpTable is a table for the text of a command's help, which kong leaves as it is where lines begin with a blank.
func helpTable(rows [][2]string) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	text := ""
	for _, row := range rows {
		text += fmt.Sprintf("\n  %-*s  %s", width, row[0], row[1])
	}
	return text + "\n"
}
