package ogb

import (
	"bufio"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// splits adds the splits of the first scheme.
func (d *dataset) splits(ctx context.Context) error {
	var scheme string
	for _, name := range d.at.Tree.Files() {
		dir, file := path.Split(name)
		dir = path.Clean(dir)
		stem, ext, _ := strings.Cut(file, ".")
		if d.typ != "" {
			if path.Base(dir) != d.typ {
				continue
			}
			dir = path.Dir(dir)
		}
		if path.Dir(dir) != d.at.In("split").Name || stem != "train" && stem != "valid" && stem != "test" {
			continue
		}
		if scheme == "" {
			scheme = dir
		}
		if dir != scheme {
			continue
		}
		at, split := d.at.Tree.At(name), map[string]string{"train": "train", "valid": "val", "test": "test"}[stem]
		var err error
		switch ext {
		case "csv", "csv.gz":
			err = d.nodeSplit(ctx, at, split)
		case "pt":
			err = d.linkSplit(at, split)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dataset) nodeSplit(ctx context.Context, at source.Place, name string) error {
	s := source.Split{Name: name, NodeType: d.node, IDs: []int64{}}
	err := rows(ctx, at, d.r, func(_ int64, f [][]byte) error {
		v, err := integer(f[0])
		if err != nil {
			return err
		}
		if v < 0 || v >= d.nodes {
			return fmt.Errorf("node %d is not in 0 .. %d", v, d.nodes-1)
		}
		return source.Append(d.r.Budget.Ledger(), &s.IDs, v)
	})
	d.g.Splits = append(d.g.Splits, s)
	return err
}

// linkSplit reads the edges to predict, and those that are given as false, out of a file of torch.save.
func (d *dataset) linkSplit(at source.Place, name string) error {
	f, err := at.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := at.Head()
	if err != nil {
		return err
	}
	if !pickle.LooksLikeTorch(head) {
		d.g.Tell(source.LeftOut, f.Path, 1, "%s is not read: only torch.save's old layout of splits is", f.Path)
		return nil
	}
	ledger := d.r.Budget.Ledger()
	before := ledger.Used(pinned.Sources)
	v, err := pickle.ReadTorch(bufio.NewReaderSize(f, 1<<16), ledger)
	defer ledger.Give(pinned.Sources, ledger.Used(pinned.Sources)-before)
	if err != nil {
		return source.Error(f.Path, "", -1, "", err)
	}
	table, ok := v.(*pickle.Dict)
	if !ok {
		return source.Error(f.Path, "", -1, "", fmt.Errorf("%s, where a dictionary of arrays is wanted",
			pickle.Describe(v)))
	}
	link := source.Link{Name: name}
	for _, part := range []struct {
		key   string
		label int64
	}{{"edge", 1}, {"edge_neg", 0}} {
		if err := d.ends(&link, table, part.key, part.label); err != nil {
			return source.Error(f.Path, part.key, -1, "", err)
		}
	}
	if len(link.Src) == 0 {
		d.g.Tell(source.LeftOut, f.Path, 1, "%s is not read: it is %s", f.Path, pickle.Describe(v))
		return nil
	}
	d.g.Links = append(d.g.Links, link)
	return nil
}

// ends adds the edges of an array of the shape (edges, 2).
func (d *dataset) ends(link *source.Link, table *pickle.Dict, key string, label int64) error {
	v, ok := table.Get(key)
	if !ok {
		return nil
	}
	a, err := pickle.AsArray(v)
	if err != nil {
		return err
	}
	if len(a.Shape) != 2 || a.Shape[1] != 2 {
		return fmt.Errorf("the shape is %v, not (edges, 2)", a.Shape)
	}
	ids, err := pickle.Ints(a, d.r.Budget.Ledger())
	if err != nil {
		return err
	}
	defer d.r.Budget.Ledger().Give(pinned.Sources, 8*int64(len(ids)))
	for i := 0; i < len(ids); i += 2 {
		for _, id := range ids[i : i+2] {
			if id < 0 || id >= d.nodes {
				return fmt.Errorf("row %d: node %d is not in 0 .. %d", i/2, id, d.nodes-1)
			}
		}
		if err := link.Append(d.r.Budget.Ledger(), ids[i], ids[i+1], label); err != nil {
			return err
		}
	}
	return nil
}
