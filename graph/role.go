package graph

import (
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// Role is what a column means to khop. Only this file decides which column has which role: the one of its name. Readers
// of foreign formats, and users who add a column, choose the role by the name.
type Role uint8

// The roles.
const (
	NoRole  Role = iota // numbers like any others
	Feature             // of nodes or edges: what a model reads
	Label               // of nodes: what a model predicts
	Time                // of nodes or edges: since when they exist, one number
	Weight              // of edges: how likely they are drawn; finite and not negative
)

var roles = []string{"", "feature", "label", "time", "weight"}

// String returns the name of the column that has the role; "" for NoRole.
func (r Role) String() string { return roles[r] }

// RoleOf returns the role of a column of that name.
func RoleOf(name string) Role { return Role(max(0, slices.Index(roles, name))) }

// Role returns the column's role.
func (c Column) Role() Role { return RoleOf(c.Name) }

// ScaleOf returns the name of the float32 column with the scales of an int8 column's rows.
func ScaleOf(name string) string { return name + "_scale" }

// NodeRole returns the column of node type t that has a role; ok is false if none has.
func (g *Graph) NodeRole(t int, r Role) (column unified.Tensor, ok bool) {
	return g.NodeColumn(t, r.String())
}
