package graph

import (
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// Role is what a column means to khop. Here alone it is decided which column has which: the one of its name. Readers of
// foreign formats, and who adds a column, choose the role by the name that they give it.
type Role uint8

// The roles.
const (
	NoRole  Role = iota // numbers like any others
	Feature             // of nodes or edges: what a model reads
	Label               // of nodes: what a model is to say
	Time                // of nodes or edges: since when they are there, one number
	Weight              // of edges: how likely they are drawn; finite and not negative
)

var roles = []string{"", "feature", "label", "time", "weight"}

// String returns the name of the column that has the role; "" for NoRole.
func (r Role) String() string { return roles[r] }

// RoleOf returns the role of a column of that name.
func RoleOf(name string) Role { return Role(max(0, slices.Index(roles, name))) }

// Role returns the column's role.
func (c Column) Role() Role { return RoleOf(c.Name) }

// ScaleOf returns the name of the column, float32, that a row of the column of that name is multiplied by where that is
// int8.
func ScaleOf(name string) string { return name + "_scale" }

// NodeRole returns the column of node type t that has a role; ok is false if none has.
func (g *Graph) NodeRole(t int, r Role) (column unified.Tensor, ok bool) {
	return g.NodeColumn(t, r.String())
}
