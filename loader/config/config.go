// Package config reads and writes the options of a loader as JSON, as "khop serve --config" and the doors of other
// languages have them.
package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/loader/rows"
	"github.com/khop-gnn/khop/loader/trace"
)

// Options are those of a loader, and those that are code in Go and a text elsewhere.
type Options struct {
	loader.Options
	// RowsFrom names servers of rows that this machine does not have: of node columns with several numbers a row. They
	// are servers of integrations/flight, at grpc://HOST:PORT,.. or grpc+tls://HOST:PORT,.. The program khop-rows
	// fetches the rows: the one that the environment's KHOP_ROWS names, else the one in PATH. Rows come ahead of their
	// batches, and Disk.CacheBytes of them are kept. The source needs only the columns' shapes: their files may be
	// sparse. Verify ignores these columns. Default: this machine has all rows.
	RowsFrom string `value:"ADDRESS" empty:"here" help:"..."`
}

// Loader returns the options for loader.New, with a Remote for RowsFrom, and what writes Tuning.Trace. It is for one
// placed source.
func (o Options) Loader() (opt loader.Options, err error) {
	opt = o.Options
	opt.Hooks.Trace = trace.Open
	if o.RowsFrom != "" {
		opt.Hooks.Remote, err = rows.From(o.RowsFrom)
	}
	return opt, err
}

// String returns the options as the JSON object that "khop serve --config" reads, with keys in order: the sampler by
// its name, and every option that is not zero. Seeds and Hooks are left out, as is a sampler of another package. "khop
// serve" does not have SlotTimeout, Rank and WorldSize: leave them zero for it.
func (o Options) String() string {
	d := given.Document(o, given.Of(o))
	s := prepared.Bare(o.Sampler)
	if kind := samplers.Of(s); kind != nil {
		d["sampler"] = kind.Name
		maps.Copy(d, kind.Document(s))
	}
	text, err := json.Marshal(d)
	if err != nil { // not a number: no loader takes it
		return fmt.Sprintf(`{"error": %q}`, err)
	}
	return string(text)
}

// ParseDocument reads a JSON object of options, in whose keys - may be _. It returns values of JSON by names of the
// command line: half-life.
func ParseDocument(text []byte) (map[string]json.RawMessage, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("the configuration is no JSON object: %w", err)
	}
	d := map[string]json.RawMessage{}
	for key, value := range keys {
		d[strings.ReplaceAll(key, "_", "-")] = value
	}
	return d, nil
}

// Parse is the inverse of String. Options that the text does not have are the zero value. It returns
// loader.ErrOptions for a text that String does not write, and for a sampler that has more than options: a Cluster with
// a partition.
func Parse(text string) (o Options, err error) {
	d, err := ParseDocument([]byte(text))
	if err != nil {
		return Options{}, fmt.Errorf("%w: %w", loader.ErrOptions, err)
	}
	if named, ok := d["sampler"]; ok {
		name, _ := given.Say(named).(string)
		kind, err := samplers.Named(name)
		if err != nil {
			return Options{}, fmt.Errorf("%w: sampler: %w", loader.ErrOptions, err)
		}
		delete(d, "sampler")
		if o.Sampler, err = kind.Take(d); err != nil {
			return Options{}, fmt.Errorf("%w: %w", loader.ErrOptions, err)
		}
	}
	if err := given.SetDocument(&o, given.Of(o), d); err != nil {
		return Options{}, fmt.Errorf("%w: %w", loader.ErrOptions, err)
	}
	return o, nil
}
