package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/bvgraph"
	"github.com/khop-gnn/khop/formats/internal/foreign/dgl"
	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/foreign/graphar"
	"github.com/khop-gnn/khop/formats/internal/foreign/graphbolt"
	"github.com/khop-gnn/khop/formats/internal/foreign/icebug"
	"github.com/khop-gnn/khop/formats/internal/foreign/lsc"
	"github.com/khop-gnn/khop/formats/internal/foreign/metis"
	"github.com/khop-gnn/khop/formats/internal/foreign/mtx"
	"github.com/khop-gnn/khop/formats/internal/foreign/musae"
	"github.com/khop-gnn/khop/formats/internal/foreign/npz"
	"github.com/khop-gnn/khop/formats/internal/foreign/ogb"
	"github.com/khop-gnn/khop/formats/internal/foreign/planetoid"
	"github.com/khop-gnn/khop/formats/internal/foreign/relbench"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/foreign/triples"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
)

// readers are tried in order; the last takes any text.
var readers = []source.Reader{
	relbench.Reader,
	icebug.Reader,
	graphar.Reader,
	tables.Reader,
	ogb.Reader,
	lsc.Reader,
	dgl.Reader,
	dgl.BinReader,
	graphbolt.Reader,
	planetoid.Reader,
	torch.Reader,
	triples.Reader,
	musae.Reader,
	bvgraph.Reader,
	npz.Reader,
	arrays.Reader,
	mtx.Reader,
	metis.Reader,
	edgelist.Reader,
}

// Kinds returns the names of the kinds that Options.From takes, with a title each.
func Kinds() [][2]string {
	var list [][2]string
	for _, r := range readers {
		list = append(list, [2]string{r.Name, r.Title})
	}
	return list
}

// OpenText opens a text as readers of edge lists do: it may be compressed, a line ends in LF, and a byte order mark is
// left out. The caller closes it. Errors, those of reading too, are *formats.Error.
func OpenText(file string) (io.ReadCloser, error) {
	f, err := source.OpenText(file)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// recognise finds the reader of a source and the place where to begin, or checks the one that is given.
func recognise(t *source.Tree, from string) (none source.Reader, _ source.Place, _ error) {
	for _, r := range readers {
		if from != "" && r.Name != from {
			continue
		}
		switch found := slices.Compact(slices.Sorted(slices.Values(r.Find(t)))); {
		case len(found) == 1:
			return r, t.At(found[0]), nil
		case len(found) > 1:
			remedy := "name one of them, or the folder that it lies in"
			if !slices.ContainsFunc(found, func(name string) bool { return path.Ext(name) != ".csv" }) {
				remedy += "; tables are read by a mapping, of which khop convert --dry-run prints a draft"
			}
			return r, source.Place{}, source.Error(t.Path, "", -1, remedy, &severalError{r.Name, found})
		case from != "" && t.Single():
			return r, t.At(t.Files()[0]), nil // the reader will say what is wrong
		case from != "":
			return r, t.At("."), nil
		}
	}
	if from != "" {
		return none, source.Place{}, fmt.Errorf("%w: no kind of source %q; there are: %s", ErrOptions, from,
			kindNames())
	}
	what, other := guess(t)
	remedy := option.Textf("name the kind by %s (%s)", option.NameOf(Options{}, "From"), kindNames())
	if other {
		remedy = option.Textf("no kind of source is such a file: export its edges as a CSV, Parquet or an edge list " +
			"(NetworkX: write_edgelist with data=False), or write a dataset from Python by khop.write")
	}
	return none, source.Place{}, source.Error(t.Path, "", -1, remedy, fmt.Errorf("%w: %s", ErrUnknown, what))
}

// severalError is a place where several sources of a kind lie.
type severalError struct {
	kind  string
	found []string
}

func (e *severalError) Error() string {
	return fmt.Sprintf("%v: there are %d sources of the kind %q: %s", ErrUnknown, len(e.found), e.kind, list(e.found))
}

func (e *severalError) Unwrap() error { return ErrUnknown }

// list returns the first few names.
func list(names []string) string {
	var short []string
	for i, n := range names {
		if i == 8 {
			short = append(short, "..")
			break
		}
		short = append(short, paths.Text(n))
	}
	return strings.Join(short, ", ")
}

func kindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k[0])
	}
	return strings.Join(names, ", ")
}

// guess says what else a source may be; other reports whether no kind of source is such a file.
func guess(t *source.Tree) (what string, other bool) {
	if !t.Single() {
		switch {
		case t.Has("dataset.json"):
			return "it is a khop dataset already", false
		case len(t.Files()) == 0:
			return "there is no file in it", false
		}
		text := "it holds nothing that is known: " + list(t.Files())
		if slices.ContainsFunc(t.Files(), func(name string) bool { return tables.IsTable(t.At(name)) }) {
			text += "; tables are read by a mapping, of which khop convert --dry-run prints a draft"
		}
		return text, false
	}
	head, err := t.At(t.Files()[0]).Head()
	switch {
	case err != nil:
		return err.Error(), false
	case len(head) == 0:
		return "an empty file", false
	}
	if what := source.NotLines(head); what != "" {
		return what, !slices.Contains([]string{source.Zip, source.NumPy}, what)
	}
	return "a file of nothing that is known" + path.Ext(t.Path), false
}

// draft returns a mapping of tables that have none, or a manifest of a database that has none, if reading has failed
// for that and nothing is to be written; else the failure.
func (c *conversion) draft(ctx context.Context, failed error) (*Result, error) {
	database := c.opt.From == relbench.Reader.Name && errors.Is(failed, fs.ErrNotExist)
	if !c.opt.DryRun || !errors.Is(failed, ErrUnknown) && !database || c.tree.Single() {
		return nil, failed
	}
	draft := tables.Draft
	if database {
		draft = tables.DraftManifest
	}
	text, err := draft(ctx, c.tree, &source.Request{Budget: &c.budget, Progress: c.opt.Progress})
	if text == "" {
		return nil, cmp.Or(err, failed)
	}
	return &Result{Kind: tables.Reader.Name, Draft: text, Notes: []formats.Note{}}, nil
}
