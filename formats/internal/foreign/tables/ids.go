package tables

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// nodeType is a node type being read.
type nodeType struct {
	spec  *NodeTable
	table *table // nil: the nodes are those that edges name
	id    int    // its column in table; -1: ids are numbers of rows
	count int64
	first int64         // how many a dataset has already, before the rows of the table
	fixed bool          // count is known
	keys  *source.Names // of ids that are not the numbers of the rows; nil: they are
	text  bool          // of keys: they are names, not numbers

	// before yields the keys of the first nodes; nil: they are their numbers.
	before func(yield func(key []byte) error) error

	packed   []packed // its columns
	together *source.Together

	scratch []byte
	numbers []int64
}

// missing is the number of an id that is not there.
const missing = -1

// ids are the ids in a column of a batch.
type ids struct {
	n       *nodeType
	v       *columnar.Vector
	text    bool
	gaps    bool // of floats: -1 stands for one that is missing
	numbers []int64
	rows    bool // they are numbers of rows, whatever ids the nodes have

	dangling bool  // ids that no node has count as missing
	lost     int64 // how many were
	absent   int64 // and how many are missing
}

// set makes them those of a batch.
func (d *ids) set(n *nodeType, f *columnar.Field, v *columnar.Vector) (err error) {
	d.n, d.v, d.text, d.gaps = n, v, f.Text, f.DType == unified.Float32 || f.DType == unified.Float64
	if !f.Text {
		d.numbers, err = columnar.Ints(f, v.Data, d.numbers[:0])
	}
	return err
}

// at returns the number of the node that row i names; missing where it has none.
func (d *ids) at(i int) (int64, error) {
	id, err := d.find(i)
	if err != nil {
		return d.unlessDangling(id, err)
	}
	if id == missing {
		d.absent++
	}
	return id, nil
}

// unlessDangling counts an id that no node has, where such count as missing. It is apart from at, since what errors.As
// fills is allocated, which took a third of the time of tables with ids of numbers.
func (d *ids) unlessDangling(id int64, err error) (int64, error) {
	if dangling := danglingError(""); d.dangling && errors.As(err, &dangling) {
		d.lost++
		return missing, nil
	}
	return id, err
}

// danglingError says which id no node has.
type danglingError string

func (e danglingError) Error() string { return string(e) }

func dangling(format string, args ...any) error { return danglingError(fmt.Sprintf(format, args...)) }

// find returns the number of the node that row i names; missing where it names none. An id that no node has is a
// danglingError.
func (d *ids) find(i int) (int64, error) {
	n := d.n
	switch {
	case d.v.Null(i) || !d.text && d.gaps && d.numbers[i] == missing:
		return missing, nil
	case d.rows:
	case n.keys != nil && d.text:
		id, err := n.lookup(d.v.Texts[i])
		if _, isNumber := strconv.ParseInt(string(d.v.Texts[i]), 10, 64); err != nil && !n.text && isNumber != nil {
			err = n.otherType(d.v.Texts[i])
		}
		return id, err
	case n.keys != nil:
		n.scratch = strconv.AppendInt(n.scratch[:0], d.numbers[i], 10)
		return n.lookup(n.scratch)
	case d.text && n.fixed && n.count == 0:
		return 0, dangling("%.60q is not the id of a node of %q, which has none", d.v.Texts[i], n.spec.Type)
	case d.text:
		return 0, n.otherType(d.v.Texts[i])
	}
	id := d.numbers[i]
	if id < 0 || n.fixed && id >= n.count {
		return 0, n.outside(id)
	}
	return id, nil
}

// otherType is the error of an id of text, of a node type whose ids are numbers.
func (n *nodeType) otherType(id []byte) error {
	return fmt.Errorf("%.60q is text, and the ids of %q are numbers: name another column, or write either as the other",
		id, n.spec.Type)
}

func (n *nodeType) outside(id int64) error {
	if n.fixed {
		return dangling("%d is not a node of %q, of which there are %d", id, n.spec.Type, n.count)
	}
	return fmt.Errorf("%d is negative: say where the nodes of %q are, or take ids as names", id, n.spec.Type)
}

// lookup returns the number of a key, a new one where keys may still come.
func (n *nodeType) lookup(key []byte) (int64, error) {
	if !n.fixed {
		return n.keys.Number(key)
	}
	if id := n.keys.Find(key); id >= 0 {
		return id, nil
	}
	if !utf8.Valid(key) {
		return n.keys.Number(key) // which says so
	}
	return 0, dangling("%.60q is not the id of a node of %q", key, n.spec.Type)
}

// readKeys numbers the ids of a table, unless they are the numbers of its rows.
func (n *nodeType) readKeys(ctx context.Context, r *source.Request, g *source.Graph) error {
	n.count, n.fixed = n.first+n.table.count, true
	if n.id < 0 {
		return nil
	}
	f := &n.table.list[n.id]
	if f.List {
		return n.table.fail(f.Name, errors.New("is a list, not an id"))
	}
	if err := n.table.checkID(n.id, r); err != nil {
		return err
	}
	if n.text = f.Text; !n.text && n.before == nil {
		same, err := n.rowNumbers(ctx, f)
		if same || err != nil {
			return err
		}
	}
	n.keys = source.NewNames(r.Budget)
	g.Own(n.keys)
	n.fixed = false
	if n.first == 0 {
		change := source.Renumbered
		if r.IDs == "names" {
			change = source.Said
		}
		g.Tell(change, n.spec.Type, n.count,
			"nodes %q are numbered by their rows, and \"id\" keeps their ids; %s names says "+
				"that it is meant", n.spec.Type, option.Named("IDs"))
	} else if err := n.takeBefore(); err != nil {
		return err
	}
	defer func() { n.fixed = true }()
	var got ids
	return n.table.scan(ctx, []int{n.id}, func(b *columnar.Batch) error {
		if err := got.set(n, f, &b.Columns[0]); err != nil {
			return b.Fail(f.Name, err)
		}
		had := n.keys.Len()
		for i := range b.Rows {
			switch id, err := got.at(i); {
			case err != nil:
				return b.Fail(f.Name, columnar.AtRow(i, err))
			case id == missing:
				return b.Fail(f.Name, columnar.AtRow(i, errors.New("the id is missing: leave the row out, or name "+
					"another column, or none")))
			case id < n.first:
				return source.Error(b.Path, f.Name, b.At(i), "leave out the rows that the dataset has, and give new "+
					"rows keys of their own", fmt.Errorf("the key %.60q is there already: node %d of %q",
					n.keys.At(id), id, n.spec.Type))
			case id != had+int64(i):
				return b.Fail(f.Name, columnar.AtRow(i, fmt.Errorf("the id %.60q is there twice: keep one "+
					"of the rows, or name another column, or none", n.keys.At(id))))
			}
		}
		r.Report("read ids", n.keys.Len(), n.count)
		return nil
	})
}

// checkID refuses ids of a text that are names for the sake of a few: most are numbers.
func (t *table) checkID(column int, r *source.Request) error {
	f := &t.list[column]
	if f.Odd.Cell == "" || r.IDs == "names" {
		return nil
	}
	return source.Error(t.at[0].Path(), f.Name, f.Odd.Line,
		option.Textf("correct the row, or take all ids as names by %s names", option.Named("IDs")),
		fmt.Errorf("the id %.60q is not a number, but most are", f.Odd.Cell))
}

var errStop = errors.New("stop")

// rowNumbers reports whether the ids are 0, 1, 2, .., or go on so.
func (n *nodeType) rowNumbers(ctx context.Context, f *columnar.Field) (bool, error) {
	row := n.first
	same := true
	err := n.table.scan(ctx, []int{n.id}, func(b *columnar.Batch) (err error) {
		v := &b.Columns[0]
		if n.numbers, err = columnar.Ints(f, v.Data, n.numbers[:0]); err != nil {
			return b.Fail(f.Name, err)
		}
		for i, id := range n.numbers {
			if v.Null(i) || id != row {
				same = false
				return source.Error(b.Path, "", -1, "", errStop)
			}
			row++
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return same, err
}
