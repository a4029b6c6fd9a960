package plot

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Objects are what a command has printed by --json, or by --jsonl, line by line.
type Objects []map[string]json.RawMessage

// Printed returns the pictures of what a command has printed: commands draw them (--plot), and reports. Each has what
// some keys hold: those of an epoch, of a dataset, of caches, of kernels.
func Printed(title string, all Objects) (list []*Plot) {
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	for _, p := range []*Plot{learning(all), throughput(all), degrees(last), counts(last), splits(last),
		speedUps(last)} {
		if p != nil {
			list = append(list, p)
		}
	}
	list = append(append(list, caches(last)...), times(last)...)
	for _, p := range list {
		if title != "" {
			p.Title = title + ": " + p.Title
		}
	}
	return list
}

// Of returns the pictures of what a command is about to print.
func Of[T any](title string, values []T) ([]*Plot, error) {
	var all Objects
	for _, v := range values {
		var object map[string]json.RawMessage
		text, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return Printed(title, all), nil
}

// read reads the value of a key, where it has that type.
func read(object map[string]json.RawMessage, key string, to any) bool {
	return object[key] != nil && json.Unmarshal(object[key], to) == nil
}

// words makes names of curves of keys.
var words = strings.NewReplacer("train_accuracy", "training", "val_accuracy", "validation", "_accuracy", "", "_", " ")

// lines returns numbers by another one, of the objects that have both; the first belongs to the axis on the left.
func lines(all Objects, by string, left string, right ...string) (list []Curve) {
	for i, name := range append([]string{left}, right...) {
		c := Curve{Name: words.Replace(name), Left: i == 0}
		for _, object := range all {
			var x, y float64
			if read(object, by, &x) && read(object, name, &y) {
				c.Add(x, y)
			}
		}
		if len(c.X) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// learning draws loss and accuracies by epoch.
func learning(all Objects) *Plot {
	list := lines(all, "epoch", "loss", "train_accuracy", "val_accuracy", "test_accuracy")
	if list == nil {
		return nil
	}
	return &Plot{Title: "learning", Bottom: "epoch", Left: "loss", Right: "accuracy", Curves: list}
}

func throughput(all Objects) *Plot {
	list := lines(all, "epoch", "", "batches_per_second")
	if list == nil {
		return nil
	}
	return &Plot{Title: "throughput", Bottom: "epoch", Right: "batches/s", Curves: list}
}

// bars draws a bar for each count, by powers of ten where they differ much; nil where there are not two.
func bars(title, bottom, of string, labels []string, n []float64) *Plot {
	if len(n) < 2 {
		return nil
	}
	p := &Plot{Title: title, Bottom: bottom, Right: of, Bars: true,
		Log: slices.Max(n) > 100*max(slices.Min(n), 1)}
	line := Curve{Name: of}
	for i, v := range n {
		p.Ticks = append(p.Ticks, Tick{float64(i), labels[i]})
		if v > 0 {
			line.Add(float64(i), v)
		}
	}
	p.Curves = []Curve{line}
	return p
}

// degrees draws how many nodes have how many in-edges.
func degrees(last map[string]json.RawMessage) *Plot {
	var bins []struct {
		From  int64   `json:"from"`
		Nodes float64 `json:"nodes"`
	}
	read(last, "degrees", &bins)
	var labels []string
	var n []float64
	for _, b := range bins {
		labels, n = append(labels, strconv.FormatInt(b.From, 10)), append(n, b.Nodes)
	}
	return bars("in-edges of nodes", "in-edges, at least", "nodes", labels, n)
}

// counts draws how many nodes and edges there are of each type.
func counts(last map[string]json.RawMessage) *Plot {
	var types []struct {
		Name     string  `json:"name"`
		Source   string  `json:"source"`
		Relation string  `json:"relation"`
		Target   string  `json:"target"`
		Count    float64 `json:"count"`
	}
	var labels []string
	var n []float64
	for _, key := range []string{"node_types", "edge_types"} {
		types = nil
		read(last, key, &types)
		for _, t := range types {
			if t.Name == "" {
				t.Name = t.Source + ":" + t.Relation + ":" + t.Target
			}
			labels, n = append(labels, t.Name), append(n, t.Count)
		}
	}
	return bars("types", "type", "nodes or edges", labels, n)
}

// splits draws how many seeds each split has.
func splits(last map[string]json.RawMessage) *Plot {
	var labels []string
	var n []float64
	for _, key := range []string{"splits", "links"} {
		var list []struct {
			Name  string  `json:"name"`
			Index int     `json:"index"`
			Count float64 `json:"count"`
		}
		read(last, key, &list)
		for _, s := range list {
			if s.Index > 0 {
				s.Name += fmt.Sprintf(" %d", s.Index)
			}
			labels, n = append(labels, s.Name), append(n, s.Count)
		}
	}
	return bars("splits", "split", "seeds", labels, n)
}

// times draws how many rows of a column of times there are, from the first to the last.
func times(last map[string]json.RawMessage) (list []*Plot) {
	var columns []struct {
		Owner  string    `json:"owner"`
		Column string    `json:"column"`
		Unit   string    `json:"unit"`
		First  float64   `json:"first"`
		Last   float64   `json:"last"`
		Rows   []float64 `json:"rows"`
	}
	read(last, "times", &columns)
	for _, c := range columns {
		var labels []string
		for i := range c.Rows {
			at := c.First + (c.Last-c.First)*float64(i)/float64(len(c.Rows))
			labels = append(labels, moment(at, c.Unit))
		}
		if p := bars(c.Column+" of "+c.Owner, c.Column+", at least", "rows", labels, c.Rows); p != nil {
			list = append(list, p)
		}
	}
	return list
}

// moment says a time as a day, where its unit is one since 1970.
func moment(at float64, unit string) string {
	if each := map[string]float64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]; each > 0 {
		return time.Unix(int64(at/each), 0).UTC().Format(time.DateOnly)
	}
	return strconv.FormatFloat(at, 'g', 6, 64)
}

// cache is what policies do with a cache of a size.
type cache struct {
	Bytes    float64 `json:"cache_bytes"`
	Policies []struct {
		Policy  string  `json:"policy"`
		Seconds float64 `json:"seconds"`
		Misses  float64 `json:"misses"`
	} `json:"policies"`
}

// optimum is the policy of fewest misses where each row is read alone, as the command prints it. It takes no seconds,
// since nobody reads so.
const optimum = "optimum"

// caches draws by the size of the cache the seconds of an epoch, and the rows missed, a line a policy.
func caches(last map[string]json.RawMessage) []*Plot {
	var list []cache
	if !read(last, "caches", &list) || len(list) < 2 {
		return nil
	}
	bytes, rows := 0.0, 0.0
	read(last, "column_bytes", &bytes)
	read(last, "rows", &rows)
	seconds := &Plot{Title: "columns on disk: time", Bottom: "cache, % of the columns",
		Right: "seconds of the disk an epoch"}
	missed := &Plot{Title: "columns on disk: rows missed", Bottom: seconds.Bottom, Right: "% of the rows requested"}
	for _, c := range list {
		x := math.Log2(max(c.Bytes, 1))
		tick := Tick{x, fmt.Sprintf("%.0f", 100*c.Bytes/max(bytes, 1))}
		seconds.Ticks, missed.Ticks = append(seconds.Ticks, tick), append(missed.Ticks, tick)
		for _, p := range c.Policies {
			if p.Policy != optimum {
				seconds.add(p.Policy, x, p.Seconds)
			} else {
				p.Policy = "optimum by row"
			}
			missed.add(p.Policy, x, 100*p.Misses/max(rows, 1))
		}
	}
	if rows == 0 {
		return []*Plot{seconds}
	}
	return []*Plot{seconds, missed}
}

// add adds a point to the curve of a name.
func (p *Plot) add(name string, x, y float64) {
	i := slices.IndexFunc(p.Curves, func(c Curve) bool { return c.Name == name })
	if i < 0 {
		i, p.Curves = len(p.Curves), append(p.Curves, Curve{Name: name})
	}
	p.Curves[i].Add(x, y)
}

// speedUps draws the speed-up over the untuned kernel by width: a line without values of edges, one with them.
func speedUps(last map[string]json.RawMessage) *Plot {
	var tuned []struct {
		Width    int64   `json:"width"`
		Weighted bool    `json:"weighted"`
		Default  float64 `json:"default_ns"`
		Best     float64 `json:"best_ns"`
	}
	if !read(last, "tuned", &tuned) || len(tuned) == 0 {
		return nil
	}
	without, with := Curve{Name: "without values"}, Curve{Name: "with values"}
	p := &Plot{Title: "speed-up over the untuned kernel, by width", Bottom: "width", Right: "speed-up"}
	for _, t := range tuned {
		line, x := &without, math.Log2(float64(t.Width))
		if t.Weighted {
			line = &with
		} else {
			p.Ticks = append(p.Ticks, Tick{x, strconv.FormatInt(t.Width, 10)})
		}
		line.Add(x, t.Default/max(t.Best, 1))
	}
	p.Curves = []Curve{without, with}
	return p
}
