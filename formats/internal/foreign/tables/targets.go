package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// targets are the nodes that the rows of a task recommend, while they are read.
type targets struct {
	node    *nodeType
	ids     ids
	offsets []int64  // of a batch: where the targets of a row begin, and the end of the last
	texts   [][]byte // of lists that are written as text
	empty   int64    // rows without a target that is there
}

// addTargets adds an edge type for each task that recommends nodes. It has no edges: those that batches begin with are
// of it.
func (x *graphOf) addTargets() {
	for i := range x.m.Tasks {
		t := &x.m.Tasks[i]
		if from, to := x.m.node(t.Nodes), x.m.node(t.To); t.To != "" && from >= 0 && to >= 0 && x.targetType(t) < 0 {
			x.g.Types = append(x.g.Types, source.EdgeType{Source: from, Relation: t.Task, Target: to})
		}
	}
}

// targetType returns the number of the edge type of a task; -1 where there is none.
func (x *graphOf) targetType(t *TaskTable) int {
	return slices.Index(x.g.Types, source.EdgeType{Source: x.m.node(t.Nodes), Relation: t.Task, Target: x.m.node(t.To)})
}

// openTargets finds what the lists of targets are.
func (r *taskReader) openTargets() error {
	to := r.x.m.node(r.spec.To)
	if to < 0 {
		return source.Error(r.x.at.Path(), "", -1, "correct the task's manifest, or take its folder away",
			fmt.Errorf("the task %q recommends %q, which is no table", r.spec.Task, r.spec.To))
	}
	r.to.Targets = &source.Targets{EdgeType: r.x.targetType(r.spec)}
	r.targets = targets{node: r.x.nodes[to], ids: ids{dangling: true}}
	return source.Append(r.x.r.Budget.Ledger(), &r.to.Targets.Offsets, 0)
}

// set takes the targets of a batch.
func (s *targets) set(r *taskReader, b *columnar.Batch) error {
	v, f := &b.Columns[r.target], r.field(r.target)
	one, of := v.Elements(f)
	switch {
	case f.List:
		s.offsets = v.Offsets
	case f.Text:
		s.offsets, s.texts = append(s.offsets[:0], 0), s.texts[:0]
		for i := range b.Rows {
			s.texts = append(s.texts, listOf(v, i)...)
			s.offsets = append(s.offsets, int64(len(s.texts)))
		}
		if one.Texts = s.texts; !s.node.text {
			var err error
			if one, of, err = numbersOf(s.texts); err != nil {
				return b.Fail(f.Name, s.row(err))
			}
		}
	default:
		s.offsets, one = s.offsets[:0], v
		for i := range b.Rows + 1 {
			s.offsets = append(s.offsets, int64(i))
		}
	}
	if err := s.ids.set(s.node, of, one); err != nil {
		return b.Fail(f.Name, s.row(err))
	}
	return nil
}

// row makes an error at a target one at its row.
func (s *targets) row(err error) error {
	var within *columnar.RowError
	if errors.As(err, &within) {
		row, _ := slices.BinarySearch(s.offsets, int64(within.Row)+1)
		return columnar.AtRow(row-1, within.Err)
	}
	return err
}

// numbersOf reads texts as the ids that they spell.
func numbersOf(texts [][]byte) (*columnar.Vector, *columnar.Field, error) {
	v := &columnar.Vector{}
	for i, t := range texts {
		id, err := strconv.ParseInt(string(t), 10, 64)
		if err != nil {
			return nil, nil, columnar.AtRow(i, fmt.Errorf("%.40q is not a number, and the ids are", t))
		}
		v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(id))
	}
	return v, &columnar.Field{DType: unified.Int64, Width: 1}, nil
}

// listOf returns the parts of a list that is written as text: 3, [3, 5], 3|5.
func listOf(v *columnar.Vector, i int) (parts [][]byte) {
	if v.Null(i) {
		return nil
	}
	text := strings.Trim(strings.TrimSpace(string(v.Texts[i])), "[]")
	for _, p := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(",|; ", c) }) {
		parts = append(parts, []byte(p))
	}
	return parts
}

// take appends the targets of row i that are there; ok is false where none is.
func (s *targets) take(r *taskReader, b *columnar.Batch, i int) (ok bool, err error) {
	to, ledger := r.to.Targets, r.x.r.Budget.Ledger()
	lo, hi := s.offsets[i], s.offsets[i+1]
	if to.IDs, err = source.Grow(ledger, to.IDs, int(hi-lo)); err != nil {
		return false, err
	}
	had := len(to.IDs)
	for k := lo; k < hi; k++ {
		id, err := s.ids.at(int(k))
		if err != nil {
			return false, b.Fail(r.spec.Targets, columnar.AtRow(i, err))
		}
		if id != missing {
			to.IDs = append(to.IDs, id)
		}
	}
	if len(to.IDs) == had {
		s.empty++
		return false, nil
	}
	return true, source.Append(ledger, &to.Offsets, int64(len(to.IDs)))
}

// tellTargets notes the targets that are left out.
func (r *taskReader) tellTargets() {
	s := &r.targets
	if n := s.ids.lost + s.ids.absent; n > 0 {
		r.x.g.Tell(source.LeftOut, r.spec.Task, n, "task %q, %s: %s of no node of %q, and left out", r.spec.Task,
			r.spec.Split, source.Counted(n, "target is", "targets are"), r.spec.To)
	}
	if n := s.empty; n > 0 {
		r.x.g.Tell(source.LeftOut, r.spec.Task, n, "task %q, %s: %s no target, and left out", r.spec.Task, r.spec.Split,
			source.Counted(n, "row has", "rows have"))
	}
}
