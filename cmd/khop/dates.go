package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/sampling"
)

// dated are options of a sampler whose time of seeds is a date: a number only where the dataset's unit is known.
type dated struct {
	at   time.Time
	text string
	said given.Values
}

// layouts of dates; without a zone they are in UTC. Python's datetime has a space for the T.
var layouts = []string{"2006-01-02", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04", "2006-01-02 15:04"}

// dateOf reads a date; ok is false for any other text.
func dateOf(text string) (at time.Time, ok bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return at, false
}

// withoutDate returns options with a number where the time of seeds is a date, which it keeps for dateSeeds.
func (f *optionFlags) withoutDate(said given.Values) (given.Values, error) {
	name := option.NameOf(sampling.Temporal{}, "AsOf").Option
	text := said.Text(name)
	at, ok := dateOf(text)
	if !ok {
		if _, err := strconv.ParseInt(text, 10, 64); text != "" && text != "none" && err != nil {
			return nil, option.Errorf(nil, sampling.Temporal{}, "AsOf", " is %q: must be a whole number, or a date "+
				"such as 2024-01-31 or 2024-01-31T12:00:00Z", text)
		}
		return said, nil
	}
	said = maps.Clone(said)
	said[name] = "0"
	f.asOf = &dated{at, text, maps.Clone(said)}
	for key, value := range f.asOf.said { // what makes a sampler of JSON writes over it
		if raw, ok := value.(json.RawMessage); ok {
			f.asOf.said[key] = slices.Clone(raw)
		}
	}
	return said, nil
}

// dateSeeds makes the sampler with the date of seeds in the unit of the times that it reads.
func (f *optionFlags) dateSeeds(s *graph.Schema) error {
	if f.asOf == nil {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return &usage{option.Errorf(nil, sampling.Temporal{}, "AsOf", " is "+strconv.Quote(f.asOf.text)+", "+format,
			args...)}
	}
	name := func(field string) string { return f.asOf.said.Text(option.NameOf(sampling.Temporal{}, field).Option) }
	units := unitsOf(s, []string{graph.Time.String(), name("Edge"), name("Node")})
	if len(units) != 1 {
		return wrong("and the dataset does not say one unit in which its times count (%s): give the number",
			strings.Join(units, ", "))
	}
	if per := map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[units[0]]; per != 0 {
		seconds, rest := f.asOf.at.Unix(), int64(f.asOf.at.Nanosecond())
		number := seconds*per + rest/(1e9/per)
		if number/per != seconds {
			return wrong("a time that int64 does not hold in %s", units[0])
		}
		f.asOf.said[option.NameOf(sampling.Temporal{}, "AsOf").Option] = strconv.FormatInt(number, 10)
	}
	return f.makeSampler(f.asOf.said)
}

// unitsOf lists the units of columns with these names.
func unitsOf(s *graph.Schema, named []string) (units []string) {
	note := func(columns []graph.Column) {
		for _, c := range columns {
			if c.Unit != "" && slices.Contains(named, c.Name) && !slices.Contains(units, c.Unit) {
				units = append(units, c.Unit)
			}
		}
	}
	note(s.EdgeColumns)
	for i := range s.Nodes {
		note(s.Nodes[i].Columns)
	}
	return units
}
