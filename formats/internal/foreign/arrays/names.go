package arrays

import (
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// namesOf begins the names of arrays of strings, as "khop export" writes them: "names_id" has the names of nodes.
const namesOf = "names_"

// ofOthers are lists of strings with a row a class or a relation, not a node.
var ofOthers = []string{"class", "relation"}

// texts returns the header of an array of strings; ok is false for others.
func (d *Describer) texts(name string) (h array.Header, ok bool) {
	if !strings.HasPrefix(name, namesOf) || d.Set[name].OpenTexts == nil {
		return h, false
	}
	t, c, err := d.Set[name].OpenTexts()
	if err != nil {
		return h, false // Others says why
	}
	return t.Header, c.Close() == nil && len(t.Header.Shape) == 1
}

// counted returns how many nodes have names.
func (d *Describer) counted() (n int64, ok bool) {
	h, ok := d.texts(namesOf + "id")
	if !ok {
		return -1, false
	}
	return h.Elements(), true
}

// names takes an array of strings as a list of the nodes, and reports whether it is one.
func (d *Describer) names(name string) (bool, error) {
	h, ok := d.texts(name)
	if !ok || d.of == ofEdge {
		return false, nil
	}
	node, list := d.Graph.Node(), source.Strings{Name: name[len(namesOf):], Rows: h.Elements()}
	list.Others = list.Rows != node.Count || slices.Contains(ofOthers, list.Name)
	if list.Name == "id" && list.Rows != node.Count {
		return false, d.fail(name, -1, "is %v, but there are %s", &h, d.rows())
	}
	list.Each = func(yield func(string) error) error { return d.eachText(name, yield) }
	node.Strings = append(node.Strings, list)
	return true, nil
}

// eachText yields the strings of an array.
func (d *Describer) eachText(name string, yield func(string) error) error {
	t, c, err := d.Set[name].OpenTexts()
	if err != nil {
		return err
	}
	defer c.Close()
	l, need := d.R.Budget.Ledger(), 2*t.Width
	if err := l.Take(pinned.Sources, need); err != nil {
		return d.fail(name, -1, "%w", err)
	}
	defer l.Give(pinned.Sources, need)
	for i := range t.Elements() {
		s, err := t.Next()
		if err != nil {
			return d.fail(name, i, "%w", err)
		}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}
