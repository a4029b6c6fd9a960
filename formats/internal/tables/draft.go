package tables

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// drafted is a table that a draft of a mapping is about.
type drafted struct {
	name, file string
	list       []field
}

// Draft returns a mapping of the tables that lie in a tree, Parquet and Arrow, as far as their columns' names tell what
// they are; "" where there are none. A person corrects it. Errors are those of Read.
func Draft(ctx context.Context, t *source.Tree, r *source.Request) (string, error) {
	var all []drafted
	for _, name := range t.Files() {
		at := t.At(name)
		if !IsTable(at) {
			continue
		}
		p, err := openPart(ctx, at, Format{}, r)
		if err != nil {
			return "", wrap(ctx, at, err)
		}
		stem, _, _ := strings.Cut(path.Base(name), ".")
		all = append(all, drafted{stem, name, p.fields()})
	}
	if all == nil {
		return "", nil
	}
	var nodes, edges strings.Builder
	for i := range all {
		if d := &all[i]; d.column("src", "source", "from") != "" && d.column("dst", "target", "to") != "" {
			fmt.Fprintf(&edges, "  %q: {file: %q, src: %q, dst: %q%s}\n", d.name, d.file,
				d.column("src", "source", "from"), d.column("dst", "target", "to"), d.times())
		} else {
			fmt.Fprintf(&nodes, "  %q: {file: %q%s%s%s}\n", d.name, d.file, d.id(), d.times(), d.keys(all))
		}
	}
	text := "# A draft of a mapping, by the names of columns: correct it, and convert this file.\n"
	if nodes.Len() > 0 {
		text += "nodes:\n" + nodes.String()
	}
	if edges.Len() > 0 {
		text += "edges: # with several node types, say \"source\" and \"target\" of each\n" + edges.String()
	}
	return text, nil
}

// column returns the column of one of the names; "" for none.
func (d *drafted) column(names ...string) string {
	for _, name := range names {
		if i := slices.IndexFunc(d.list, func(f field) bool { return strings.EqualFold(f.name, name) }); i >= 0 {
			return d.list[i].name
		}
	}
	return ""
}

// idNames are what the ids of a table's rows are called elsewhere.
func (d *drafted) idNames() []string {
	return []string{d.name + "_id", strings.TrimSuffix(d.name, "s") + "_id", d.name + "Id"}
}

// key returns the column of the rows' ids; "" for none.
func (d *drafted) key() string {
	if name := d.column(append(d.idNames(), "id", "node_id")...); name != "" {
		return name
	}
	if i := slices.IndexFunc(d.list, func(f field) bool { return strings.HasSuffix(f.name, "_id") }); i == 0 {
		return d.list[i].name
	}
	return ""
}

func (d *drafted) id() string {
	if name := d.key(); name != "" {
		return fmt.Sprintf(", id: %q", name)
	}
	return ""
}

// times names the first column of times.
func (d *drafted) times() string {
	if i := slices.IndexFunc(d.list, func(f field) bool { return f.unit != "" && !f.list }); i >= 0 {
		return fmt.Sprintf(", time: %q", d.list[i].name)
	}
	return ""
}

// keys names the columns that are called as the ids of another table are.
func (d *drafted) keys(all []drafted) string {
	var list []string
	for _, f := range d.list {
		for k := range all {
			to := &all[k]
			key := to.key()
			called := slices.Contains(to.idNames(), f.name) || f.name == key && strings.HasSuffix(key, "_id")
			if called && f.name != d.key() && to.name != d.name {
				list = append(list, fmt.Sprintf("%q: %q", f.name, to.name))
				break
			}
		}
	}
	if list == nil {
		return ""
	}
	return ", keys: {" + strings.Join(list, ", ") + "}"
}
