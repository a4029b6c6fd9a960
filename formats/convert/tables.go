package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// table is a .npy file with a row a node.
type table struct {
	npy
	role graph.Role // of the column that it becomes
	info fs.FileInfo
}

// openTables reads the headers of the tables that the options name and returns how many rows they have; 0 without any.
func (c *conversion) openTables() (nodes int64, err error) {
	for _, t := range []table{{npy: npy{path: c.opt.Features}, role: graph.Feature},
		{npy: npy{path: c.opt.Labels}, role: graph.Label}} {
		if t.path == "" {
			continue
		}
		f, err := source.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			there, _ := filepath.Glob(filepath.Join(filepath.Dir(t.path), "*.npy"))
			return 0, fmt.Errorf("the table of %vs: %w; .npy files there: %s", t.role, err,
				cmp.Or(strings.Join(there, ", "), "none"))
		}
		if err != nil {
			return 0, err
		}
		if t.info, err = os.Stat(t.path); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		t.header, err = array.ReadHeader(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, source.Error(t.path, "", -1, "write it by numpy.save", err)
		}
		h := &t.header
		switch err = t.check(f); {
		case err != nil:
		case t.role == graph.Feature && len(h.Shape) != 2,
			h.Elements() == 0 && len(h.Shape) == 2 && h.Shape[1] == 0:
			err = fmt.Errorf("features have the shape (nodes, width), not %v", h.Shape)
		case t.role == graph.Label && len(h.Shape) != 1 && (len(h.Shape) != 2 || h.Shape[1] != 1):
			err = fmt.Errorf("labels have the shape (nodes,), not %v", h.Shape)
		case len(c.tables) > 0 && h.Shape[0] != nodes:
			err = fmt.Errorf("there are %d rows, but %s has %d", h.Shape[0], c.tables[0].path, nodes)
		}
		if err != nil {
			return 0, source.Error(t.path, "", -1, "", err)
		}
		nodes = h.Shape[0]
		c.tables = append(c.tables, &t)
	}
	return nodes, nil
}

// addTables puts the tables in place of what the source has of that name.
func (c *conversion) addTables(ctx context.Context) error {
	if len(c.tables) == 0 {
		return nil
	}
	g, node := c.graph, c.graph.Node()
	for _, t := range c.tables {
		if t.header.Shape[0] != node.Count {
			return source.Error(t.path, "", -1, "a table has a row for each node",
				fmt.Errorf("there are %d rows, but %d nodes", t.header.Shape[0], node.Count))
		}
		col := source.Column{Column: graph.Column{Name: t.role.String(), DType: t.header.DType},
			Write: t.writer(&c.ledger)}
		if t.role == graph.Feature {
			col.Shape = []int64{t.header.Shape[1]}
		} else {
			col.DType = unified.Int64
			var labels []int64
			if err := t.read(&c.ledger, "labels are whole numbers", func(f *source.File) (err error) {
				labels, err = array.ReadInts(f, t.header, &c.ledger)
				return err
			}); err != nil {
				return err
			}
			col = source.Bytes(col.Column, unified.FromSlice(labels).Bytes())
			node.Classes = source.Classes(labels)
		}
		replaced := false
		for i := range node.Columns {
			if node.Columns[i].Role() == t.role {
				node.Columns[i], replaced = col, true
				g.Note("%s replaces the %vs of %s", t.path, t.role, c.src)
			}
		}
		if !replaced {
			node.Columns = append(node.Columns, col)
		}
	}
	return context.Cause(ctx)
}
