package embed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/sparse"
)

// ErrRows is returned for rows that a step cannot make: of a wrong shape, or not finite.
var ErrRows = errors.New("embed: rows are not what they must be")

// Reduce says how the rows of a node's sources become one.
type Reduce uint8

// The reductions. A node without edges has zeros.
const (
	Sum  Reduce = iota
	Mean        // the sum times 1/degree, in float32
	Max
	Norm   // the sum of x[j] / sqrt(in-degree of i x out-degree of j), edges to itself among them
	NormIn // the same with the in-degree of j, which is of i's type
	Attend // the sum weighted by attention, in each of Heads
)

// normed reports whether edges weigh GCN's norm.
func (r Reduce) normed() bool { return r == Norm || r == NormIn }

// Relation is sums over the edges of one type, for the nodes of a step.
type Relation struct {
	Edges  int // type
	Reduce Reduce
	Table  *Table // of the sources
	Loops  bool   // an edge from each node to itself, last where it has none
	Once   bool   // with Loops: several edges from a node to itself count as one
	// Of attention: Score has a number a head of each source, Target that of each node, and Greatest the greatest Score
	// of its sources. An edge weighs exp(leaky(target + score) - leaky(target + greatest)), over the sum of these.
	Heads                   int
	Score, Target, Greatest *Table
}

// loopsOnce is what names have of a relation with one loop a node.
func (r *Relation) loopsOnce() string {
	if r.Once {
		return ", loops once"
	}
	return ""
}

// slope is that of attention's leaky ReLU below 0.
const slope = 0.2

// Step makes tables, with a row for each node of a type.
type Step struct {
	Name  string
	Type  int // of the nodes
	Own   []*Table
	Sums  []Relation
	To    []*Table
	Apply func(b *Block) error
	// Rows is how many nodes Apply is given at a time, from a multiple of it on: for a function whose rows depend on
	// how many there are. 0: any number, and each row depends on nothing else.
	Rows int
}

// applyRows is how many nodes Apply is given at a time, at most: their rows take applyBytes, where they are wide.
func (s *Step) applyRows() int64 {
	width := 1
	for _, t := range slices.Concat(s.reads(), s.To) {
		width = max(width, t.Width)
	}
	return cmp.Or(int64(s.Rows), min(max(int64(applyBytes/4/width), 64), 4096))
}

var applyBytes = 2 << 20

// Block is some nodes of a step: rows of its Own tables and sums, and of those that Apply writes, as float32.
type Block struct {
	Type          int     // of the nodes
	First, N      int64   // the number of the first node among those of the step, and how many
	Nodes         []int32 // nil: First, First+1, ..
	Own, Sums, To [][]float32
	Pool          *sparse.Pool // to compute with
}

// Program is steps over a graph, in an order in which each reads what is there.
type Program struct {
	Graph *graph.Graph
	Steps []*Step
	// Name tells programs apart that give other bytes: of the graph, the parameters, and the options.
	Name string
	// Base tells programs apart as Name does, but for graph and columns: see Options.Keep.
	Base string
	// Of says which nodes of each type the last steps make; nil: all.
	Of [][]int32
}

// check refuses programs that read what is not there.
func (p *Program) check() error {
	made := map[*Table]bool{}
	for _, s := range p.Steps {
		for _, t := range s.reads() {
			if t.bytes == nil && !made[t] {
				return fmt.Errorf("step %s reads table %s, which nothing makes", s.Name, t.Name)
			}
		}
		for _, t := range s.To {
			made[t] = true
		}
	}
	return nil
}

// reads returns the tables that a step reads.
func (s *Step) reads() []*Table {
	all := s.ownTables()
	for i := range s.Sums {
		all = append(all, s.Sums[i].tables()...)
	}
	return all
}

// ownTables returns the tables of which a step reads the rows of its nodes, but for those of loops.
func (s *Step) ownTables() []*Table {
	all := slices.Clone(s.Own)
	for i := range s.Sums {
		if rel := &s.Sums[i]; rel.Reduce == Attend {
			all = append(all, rel.Target, rel.Greatest)
		}
	}
	return all
}

// tables returns those whose rows of the sources a relation reads.
func (r *Relation) tables() []*Table {
	if r.Reduce == Attend {
		return []*Table{r.Table, r.Score}
	}
	return []*Table{r.Table}
}
