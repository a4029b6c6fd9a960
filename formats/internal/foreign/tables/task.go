package tables

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// readTask reads the table of a task. Rows whose node is not there are left out.
func (x *graphOf) readTask(ctx context.Context, spec *TaskTable) error {
	owner := x.m.node(spec.Nodes)
	if owner < 0 {
		return source.Error(x.at.Path(), "", -1, "correct the task's manifest, or take its folder away",
			fmt.Errorf("the task %q is about %q, which is no table", spec.Task, spec.Nodes))
	}
	t, err := x.table(ctx, rows{files: spec.Files})
	if err != nil {
		return err
	}
	r := &taskReader{x: x, t: t, spec: spec, to: source.Split{Task: spec.Task, Name: spec.Split, NodeType: owner},
		label: -1, time: -1, from: -1, lookback: -1, target: -1}
	if err := r.columns(); err != nil {
		return err
	}
	x.g.Own(r)
	if err := t.scan(ctx, r.want, r.take); err != nil {
		return err
	}
	r.tellTargets()
	if n := r.ids.lost + r.ids.absent; n > 0 {
		x.g.Tell(source.LeftOut, spec.Task, n, "task %q, %s: %s of no node of %q, and left out", spec.Task, spec.Split,
			source.Counted(n, "row is", "rows are"), spec.Nodes)
	}
	x.g.Splits = append(x.g.Splits, r.to)
	return nil
}

// taskReader reads one.
type taskReader struct {
	x            *graphOf
	t            *table
	spec         *TaskTable
	to           source.Split
	want         []int // columns: of the ids, then perhaps of times, and of labels or targets
	ids          ids
	times, since []byte
	rows         []byte
	targets      targets
	// the places of other columns in want; -1: there are none
	time, from, lookback, label, target int
}

// columns finds the columns.
func (r *taskReader) columns() error {
	for _, c := range []struct {
		name string
		at   *int
	}{{r.spec.ID, nil}, {r.spec.Time, &r.time}, {r.spec.From, &r.from}, {r.spec.Lookback, &r.lookback},
		{r.spec.Label, &r.label}, {r.spec.Targets, &r.target}} {
		if masked := r.spec.Masked && (c.at == &r.label || c.at == &r.target); c.name == "" || masked &&
			r.t.find(c.name) < 0 {
			continue
		}
		if i := r.t.find(c.name); c.at == &r.target && i >= 0 && r.t.list[i].List {
			r.t.readRagged(i)
		}
		i, err := r.t.column(c.name)
		if err != nil {
			return err
		}
		if c.at != nil {
			*c.at = len(r.want)
		}
		r.want = append(r.want, i)
	}
	r.ids = ids{dangling: true}
	if f := r.field(0); f.List {
		return r.t.fail(f.Name, errors.New("is a list, not an id"))
	}
	if err := r.openTimes(); err != nil {
		return err
	}
	if r.target >= 0 {
		return r.openTargets()
	}
	if r.label < 0 {
		return nil
	}
	f := r.field(r.label)
	if f.Text || f.Width == 0 {
		return r.t.fail(f.Name, fmt.Errorf("is %v: labels are numbers, or lists of as many each: number the "+
			"classes", f))
	}
	r.to.Label, r.to.Labels = graph.Column{Name: "label", DType: unified.Int64}, []byte{}
	if f.DType.IsFloat() {
		r.to.Label.DType = unified.Float32
	}
	if f.List {
		r.to.Label.Shape = []int64{f.Width}
	}
	return nil
}

// openTimes begins the times and first times.
func (r *taskReader) openTimes() error {
	if r.time >= 0 {
		f := r.field(r.time)
		if f.List || f.DType.IsFloat() {
			return r.t.fail(f.Name, fmt.Errorf("is %v, and no time", f))
		}
		_, r.to.Unit = f.Stored(timeColumn)
		r.to.Times = []int64{}
	}
	at := max(r.from, r.lookback)
	if at < 0 {
		return nil
	}
	f := r.field(at)
	switch _, unit := f.Stored(timeColumn); {
	case min(r.from, r.lookback) >= 0:
		return r.t.fail(f.Name, fmt.Errorf("stands beside %q: name one of first times and lookbacks",
			r.field(min(r.from, r.lookback)).Name))
	case r.lookback >= 0 && (f.List || f.DType.IsFloat() || r.time < 0 || unit != ""):
		return r.t.fail(f.Name, fmt.Errorf("is %v in %q: lookbacks are whole numbers beside times", f, unit))
	case r.from >= 0 && (f.List || f.DType.IsFloat() || r.time < 0 || unit != r.to.Unit):
		return r.t.fail(f.Name, fmt.Errorf("is %v in %q: first times stand beside times, in their unit %q", f, unit,
			r.to.Unit))
	}
	r.to.From = []int64{}
	return nil
}

// timesOf takes the time of row i, and its first time.
func (r *taskReader) timesOf(b *columnar.Batch, i int) error {
	if r.to.Times == nil {
		return nil
	}
	at := unified.Int64.Integer(r.times[8*i:])
	if at == source.NoTime {
		return b.Fail(r.spec.Time, columnar.AtRow(i, errors.New("the time is missing: leave the row out")))
	}
	if r.to.Times = append(r.to.Times, at); r.to.From == nil {
		return nil
	}
	from := unified.Int64.Integer(r.since[8*i:])
	if r.lookback >= 0 && from != source.NoTime {
		if from < 0 {
			return b.Fail(r.spec.Lookback, columnar.AtRow(i, fmt.Errorf("%d is negative", from)))
		}
		from = r.before(at, from)
	}
	r.to.From = append(r.to.From, from)
	return nil
}

// before returns the time that is a lookback before another; NoTime where int64 does not hold it.
func (r *taskReader) before(at, lookback int64) int64 {
	ok := true
	if r.to.Unit != "" {
		lookback, ok = source.InUnit(lookback, "s", r.to.Unit)
	}
	if from := at - lookback; ok && from <= at {
		return from
	}
	return source.NoTime
}

var errNoLabel = errors.New("the label is missing: leave the row out")

func (r *taskReader) field(k int) *columnar.Field { return &r.t.list[r.want[k]] }

// take takes the rows of a batch.
func (r *taskReader) take(b *columnar.Batch) (err error) {
	f := r.field(0)
	if err := r.ids.set(r.x.nodes[r.to.NodeType], f, &b.Columns[0]); err != nil {
		return b.Fail(f.Name, err)
	}
	if r.time >= 0 {
		f := r.field(r.time)
		if r.times, err = f.TimesOf(&b.Columns[r.time], b.Rows, unified.Int64, r.times[:0]); err != nil {
			return b.Fail(f.Name, err)
		}
	}
	if at := max(r.from, r.lookback); at >= 0 {
		f := r.field(at)
		if r.since, err = f.TimesOf(&b.Columns[at], b.Rows, unified.Int64, r.since[:0]); err != nil {
			return b.Fail(f.Name, err)
		}
	}
	if r.label >= 0 {
		f := r.field(r.label)
		if i := b.Columns[r.label].FirstNull(); i >= 0 && !f.List {
			if err := r.unlabelled(i); err != nil {
				return b.Fail(f.Name, err)
			}
		} else if r.rows, err = r.t.rows(r.only(b, r.label), "label", r.want[r.label:r.label+1], r.to.Label.DType,
			r.rows[:0]); err != nil {
			return b.Fail(f.Name, err)
		}
	}
	if r.target >= 0 {
		if err := r.targets.set(r, b); err != nil {
			return err
		}
	}
	return r.rowsOf(b)
}

// Close gives back the memory of the rows, which are the graph's.
func (r *taskReader) Close() error {
	n := 8*int64(cap(r.to.IDs)+cap(r.to.Times)+cap(r.to.From)) + int64(cap(r.to.Labels))
	if to := r.to.Targets; to != nil {
		n += 8 * int64(cap(to.IDs)+cap(to.Offsets))
	}
	r.x.r.Budget.Ledger().Give(pinned.Sources, n)
	return nil
}

// only returns one column of a batch.
func (r *taskReader) only(b *columnar.Batch, k int) *columnar.Batch {
	one := *b
	one.Columns = b.Columns[k : k+1]
	return &one
}

// rowsOf appends the rows whose node is there.
func (r *taskReader) rowsOf(b *columnar.Batch) (err error) {
	ledger, size := r.x.r.Budget.Ledger(), int(r.to.Label.RowBytes())
	if r.to.IDs, err = source.Grow(ledger, r.to.IDs, b.Rows); err != nil {
		return err
	}
	if r.to.Times != nil {
		if r.to.Times, err = source.Grow(ledger, r.to.Times, b.Rows); err != nil {
			return err
		}
	}
	if r.to.From != nil {
		if r.to.From, err = source.Grow(ledger, r.to.From, b.Rows); err != nil {
			return err
		}
	}
	if r.to.Labels != nil {
		if r.to.Labels, err = source.Grow(ledger, r.to.Labels, size*b.Rows); err != nil {
			return err
		}
	}
	for i := range b.Rows {
		id, err := r.ids.at(i)
		if err != nil {
			return b.Fail(r.field(0).Name, columnar.AtRow(i, err))
		}
		if id == missing {
			continue
		}
		if r.to.Targets != nil {
			if ok, err := r.targets.take(r, b, i); err != nil || !ok {
				if err != nil {
					return err
				}
				continue
			}
		}
		r.to.IDs = append(r.to.IDs, id)
		if err := r.timesOf(b, i); err != nil {
			return err
		}
		if r.to.Labels == nil {
			continue
		}
		row := r.rows[size*i : size*(i+1)]
		if err := r.checkLabel(row, i); err != nil {
			return b.Fail(r.spec.Label, err)
		}
		r.to.Labels = append(r.to.Labels, row...)
	}
	return nil
}

// checkLabel refuses a label of row i that is no number.
func (r *taskReader) checkLabel(row []byte, i int) error {
	for ; r.to.Label.DType.IsFloat() && len(row) > 0; row = row[4:] {
		switch x := r.to.Label.DType.Float(row); {
		case x != x:
			return r.unlabelled(i)
		case math.IsInf(x, 0):
			return columnar.AtRow(i, errors.New("the label is beyond what float32 holds: scale the labels"))
		}
	}
	return nil
}

// unlabelled says of a row without a label that it is one too many, where there must be some. A table whose labels are
// masked has none then.
func (r *taskReader) unlabelled(row int) error {
	if !r.spec.Masked {
		return columnar.AtRow(row, errNoLabel)
	}
	r.x.r.Budget.Ledger().Give(pinned.Sources, int64(cap(r.to.Labels)))
	r.label, r.to.Labels, r.to.Label = -1, nil, graph.Column{}
	return nil
}
