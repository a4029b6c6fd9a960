package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
)

// left begins the names of columns that "-" leaves out. No column that is stored begins so.
const left = "-"

// nameColumns takes the names of the columns of the one table of edges, in order: src and dst are the ends, src:user
// also names the type of the nodes there, "-" leaves a column out.
func (m *Mapping) nameColumns(columns []string) error {
	bad := func(format string, args ...any) error {
		return option.Textf("%w: %s "+format, append([]any{source.ErrOptions, option.Named("Columns")}, args...)...)
	}
	e := &m.Edges[0]
	for i, c := range columns {
		name, typ, typed := strings.Cut(strings.TrimSpace(c), ":")
		switch {
		case name == left:
			name = fmt.Sprint(left, i)
			e.Without = append(e.Without, name)
		case name == "" || strings.HasPrefix(name, left) || slices.Contains(e.names, name):
			return bad("names %q twice, or it is no name", name)
		case typed && name != "src" && name != "dst":
			return bad("names the type %q of %q: the columns of a table have types", typ, name)
		case name == "src":
			e.Src, e.Source = name, typ
		case name == "dst":
			e.Dst, e.Target = name, typ
		}
		e.names = append(e.names, name)
	}
	switch {
	case e.Src == "" || e.Dst == "":
		return bad("does not name src and dst, the columns of the ids")
	case (e.Source == "") != (e.Target == ""):
		return bad("names the type of nodes at one end only: src:user,dst:item names both")
	case e.Source != "" && len(m.Nodes) > 0:
		return bad("names types of nodes, and a table beside has the nodes")
	}
	return nil
}

// rename gives the columns of a table names in order.
func (t *table) rename(names []string) error {
	if len(names) != len(t.list) {
		return option.Textf("%w: %s names %d of %d columns, %s: name each; - leaves one out", source.ErrOptions,
			option.Named("Columns"), len(names), len(t.list), t.names())
	}
	for i, name := range names {
		t.list[i].Name = name
	}
	return nil
}
