package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// The kinds of columns of a database, as PyTorch Frame calls them (Hu et al., "PyTorch Frame: A Modular Framework for
// Multi-Modal Tabular Learning", 2024).
const (
	numerical        = "numerical"
	categorical      = "categorical"
	multicategorical = "multicategorical"
	timestamp        = "timestamp"
	embedding        = "embedding"
	text             = "text"
)

var kindNames = []string{numerical, categorical, multicategorical, timestamp, embedding, text}

// sampleRows is how many rows tell what kinds columns are, and leastCount how often at least each category is among
// them: PyTorch Frame has the same numbers.
const (
	sampleRows = 1000
	leastCount = 5
)

// quantileRows is how many rows, evenly spaced, quantiles come of.
const quantileRows = 1 << 16

// maxCounts is the most categories whose frequencies a manifest has.
const maxCounts = 1 << 16

// meant is a column of a database's table by what it means.
type meant struct {
	at   int // in the table
	f    *columnar.Field
	kind string
	unit string // of times
	// plain says that times are plain numbers, of which nobody says the unit: they are taken for seconds
	plain bool

	sample    []string // values of some rows
	fractions bool     // of numbers: some are not whole
	gaps      bool     // some are missing in the sample
	binary    bool     // some are bytes that are no text

	missing   int64
	moments   moments
	values    []float64     // for quantiles
	names     *source.Names // of categories, as they appear
	counts    []int64       // of each of them
	old       int           // how many of them a dataset has, whose numbers stay
	codes     []int32       // their numbers: the most frequent first
	low, high int64         // of times, in seconds
	times     []int64       // for the median
	rounded   int64         // how many whole numbers float32 does not hold
	far       int64         // how many plain numbers are beyond source.Far seconds
}

// moments are mean and deviation of numbers (Welford, Technometrics 1962).
type moments struct {
	n             int64
	mean, squares float64
	least, most   float64
}

func (m *moments) add(x float64) {
	if m.n++; m.n == 1 {
		m.least, m.most = x, x
	}
	m.least, m.most = min(m.least, x), max(m.most, x)
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.squares += d * (x - m.mean)
}

// look takes a sample of the columns, and finds the kinds that nobody has said.
func (t *table) look(ctx context.Context, list []*meant) error {
	stride, row := max(1, t.count/sampleRows), int64(0)
	return t.scan(ctx, columnsOf(list), func(b *columnar.Batch) error {
		for i := range b.Rows {
			if (row+int64(i))%stride != 0 {
				continue
			}
			for k, c := range list {
				c.see(&b.Columns[k], i)
			}
		}
		row += int64(b.Rows)
		return nil
	})
}

func columnsOf(list []*meant) (want []int) {
	for _, c := range list {
		want = append(want, c.at)
	}
	return want
}

// see takes a row of the sample into account.
func (c *meant) see(v *columnar.Vector, i int) {
	if c.f.List {
		return
	}
	s, ok := c.f.Cell(v, i)
	if !ok {
		c.gaps = true
		return
	}
	c.binary = c.binary || c.f.Bytes && !utf8.ValidString(s)
	if c.sample = append(c.sample, s); !c.f.Text && c.f.DType.IsFloat() {
		x := c.f.Number(v, i)
		c.fractions = c.fractions || x != math.Trunc(x)
	}
}

// guess returns the kind of a column by its sample, as PyTorch Frame's infer_df_stype does; "" for one without a value,
// or of bytes that are no text.
func (c *meant) guess() string {
	switch f := c.f; {
	case f.List:
		return embedding
	case c.binary || len(c.sample) == 0 && f.Unit == "":
		return ""
	case f.Unit != "":
		return timestamp
	case f.Boolean:
		return categorical
	case !f.Text && f.DType.IsFloat() && (c.fractions || !c.gaps):
		return numerical
	case !f.Text:
		if least(c.sample) >= leastCount {
			return categorical
		}
		return numerical
	}
	for _, s := range c.sample {
		if _, ok := columnar.ParseTime(strings.TrimSpace(s)); !ok {
			return c.guessText()
		}
	}
	return timestamp
}

func (c *meant) guessText() string {
	if least(c.sample) >= leastCount {
		return categorical
	}
	for _, sep := range []string{"|", ","} {
		var parts []string
		for _, s := range c.sample {
			for _, p := range strings.Split(s, sep) {
				parts = append(parts, strings.TrimSpace(p))
			}
		}
		if least(parts) >= leastCount {
			return multicategorical
		}
	}
	return text
}

// least returns how often the rarest of the values is there.
func least(values []string) int {
	seen := map[string]int{}
	for _, s := range values {
		seen[s]++
	}
	n := len(values)
	for _, k := range seen {
		n = min(n, k)
	}
	return n
}

// check refuses a kind that a person gives to a column that cannot be of it.
func (c *meant) check(t *table) error {
	f := c.f
	fits := map[string]bool{
		numerical: !f.Text && !f.List, categorical: !f.List && (f.Text || !f.DType.IsHalf()), multicategorical: f.Text,
		timestamp: !f.List && (f.Text || !f.DType.IsFloat()), embedding: f.List && f.Width > 0, text: f.Text}
	if ok, known := fits[c.kind]; !known {
		return t.fail(f.Name, fmt.Errorf("is to be of the kind %.40q; there are: %s", c.kind,
			strings.Join(kindNames, ", ")))
	} else if !ok {
		return t.fail(f.Name, fmt.Errorf("is %v, which cannot be %s", f, c.kind))
	}
	return nil
}

// measure computes the statistics of all columns, and numbers the categories. Of a dataset's rows before the table's
// the columns know them.
func (x *graphOf) measure(ctx context.Context, t *table, before int64, list []*meant) error {
	for _, c := range list {
		if c.kind == categorical && c.names == nil {
			c.names = source.NewNames(x.r.Budget)
			x.g.Own(c.names)
		}
	}
	row, stride := before, strideOf(before+t.count)
	err := t.scan(ctx, columnsOf(list), func(b *columnar.Batch) error {
		for k, c := range list {
			if err := c.measure(b, &b.Columns[k], row, stride, x.r.Budget); err != nil {
				return b.Fail(c.f.Name, err)
			}
		}
		row += int64(b.Rows)
		x.r.Report("measure columns", row, t.count)
		return nil
	})
	for _, c := range list {
		c.number()
		x.tellValues(t, c)
	}
	return err
}

// strideOf returns of how many rows one gives a value for quantiles.
func strideOf(rows int64) int64 { return max(1, (rows+quantileRows-1)/quantileRows) }

// measure takes a batch into account, of which row is the first. One row in stride gives a value for quantiles.
func (c *meant) measure(b *columnar.Batch, v *columnar.Vector, row, stride int64, budget *source.Budget) (err error) {
	switch c.kind {
	case numerical:
		for i := range b.Rows {
			x := c.f.Number(v, i)
			if x != x || math.IsInf(x, 0) {
				c.missing++
				continue
			}
			if x == math.Trunc(x) && float64(float32(x)) != x {
				c.rounded++
			}
			if c.moments.add(x); (row+int64(i))%stride == 0 {
				c.values = append(c.values, x)
			}
		}
	case categorical:
		for i := range b.Rows {
			s, ok := c.f.Cell(v, i)
			if !ok {
				c.missing++
				continue
			}
			k, err := c.names.Number([]byte(s))
			if err != nil {
				return columnar.AtRow(i, err)
			}
			if k == int64(len(c.counts)) {
				if err := source.Append(budget.Ledger(), &c.counts, 0); err != nil {
					return err
				}
			}
			c.counts[k]++
		}
	case timestamp:
		data, err := c.f.TimesOf(v, b.Rows, unified.Int64, nil)
		if err != nil {
			return err
		}
		for i := int64(0); c.plain && 8*i < int64(len(data)); i++ {
			if unified.Int64.Integer(data[8*i:]) > source.Far {
				c.far++
			}
		}
		c.measureTimes(data, c.unit, row, stride)
	default:
		for i := range b.Rows {
			if v.Null(i) {
				c.missing++
			}
		}
	}
	return nil
}

func (c *meant) measureTimes(data []byte, unit string, row, stride int64) {
	for i := int64(0); 8*i < int64(len(data)); i++ {
		at := unified.Int64.Integer(data[8*i:])
		if at == source.NoTime {
			c.missing++
			continue
		}
		at, _ = source.InUnit(at, unit, "s")
		if c.times == nil {
			c.low, c.high = at, at
		}
		c.low, c.high = min(c.low, at), max(c.high, at)
		if (row+i)%stride == 0 || c.times == nil {
			c.times = append(c.times, at)
		}
	}
}

// number orders the categories behind those of a dataset: the most frequent first, of equal ones that which appears
// first.
func (c *meant) number() {
	order := make([]int32, len(c.counts))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order[c.old:], func(a, b int32) int { return cmp.Compare(c.counts[b], c.counts[a]) })
	c.codes = make([]int32, len(order))
	for code, k := range order {
		c.codes[k] = int32(code)
	}
}

// described is what a manifest says of an element of a row (docs/format.md, "What elements mean").
type described struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`
	Width     int64     `json:"width,omitempty"` // of an embedding
	Missing   int64     `json:"missing"`
	Mean      *float64  `json:"mean,omitempty"`
	Deviation *float64  `json:"std,omitempty"`
	Quantiles []float64 `json:"quantiles,omitempty"`
	Counts    []int64   `json:"counts,omitempty"`
	Times     []int64   `json:"times,omitempty"`
}

// describe says what the elements of a row are, as JSON.
func describe(list []*meant) []byte {
	var all []described
	for _, c := range list {
		d := described{Name: c.f.Name, Kind: c.kind, Missing: c.missing}
		if c.kind == embedding {
			d.Width = c.f.Width
		}
		if m := &c.moments; m.n > 0 {
			std := math.Sqrt(m.squares / float64(m.n))
			d.Mean, d.Deviation = &m.mean, &std
			d.Quantiles = c.quantiles()
		}
		if n := len(c.counts); n > 0 && n <= maxCounts {
			d.Counts = make([]int64, n)
			for k, code := range c.codes {
				d.Counts[code] = c.counts[k]
			}
		}
		if len(c.times) > 0 {
			slices.Sort(c.times)
			d.Times = []int64{c.low, c.times[len(c.times)/2], c.high}
		}
		all = append(all, d)
	}
	data, _ := json.Marshal(all) // finite numbers and texts can always be written
	return data
}

// quantiles returns the least number, the quartiles and the greatest, between two values as NumPy does.
func (c *meant) quantiles() []float64 {
	slices.Sort(c.values)
	list := []float64{c.moments.least}
	for _, q := range []float64{.25, .5, .75} {
		if len(c.values) == 0 {
			list = append(list, c.moments.mean)
			continue
		}
		at := q * float64(len(c.values)-1)
		lo := int(at)
		hi := min(lo+1, len(c.values)-1)
		list = append(list, c.values[lo]+(at-float64(lo))*(c.values[hi]-c.values[lo]))
	}
	return append(list, c.moments.most)
}
