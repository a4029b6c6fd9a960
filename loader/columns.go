package loader

import (
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/unified"
)

// column is a column of the source, once, in however many arrays its rows are delivered.
type column struct {
	name     string
	nodeType int // -1 for a column of the edges
	store    *gather.Store
	onDevice *gather.DeviceStore // in place of store, where batches are made on a device
}

// openColumns looks up the columns that batches have rows of.
func (l *Loader) openColumns() error {
	type key struct {
		nodeType int
		name     string
	}
	found := map[key]*column{}
	l.columns = make([]*column, len(l.arrays))
	for i := range l.arrays {
		a := &l.arrays[i]
		if !a.IsColumn() {
			continue
		}
		k := key{a.Type, a.Column}
		if a.Kind == ArrayEdgeColumn {
			k.nodeType = -1
		}
		if found[k] == nil {
			tensor, _ := l.graph.EdgeColumn(a.Column)
			if k.nodeType >= 0 {
				tensor, _ = l.graph.NodeColumn(a.Type, a.Column)
			}
			store, err := gather.NewStore(tensor)
			if err != nil {
				return fmt.Errorf("column of %s: %w", a.Name, err)
			}
			found[k] = &column{name: a.Column, nodeType: k.nodeType, store: store}
		}
		l.columns[i] = found[k]
	}
	return nil
}

// eachColumn calls f for every column in use, once.
func (l *Loader) eachColumn(f func(c *column)) {
	seen := map[*column]bool{nil: true}
	for _, c := range l.columns {
		if !seen[c] {
			seen[c] = true
			f(c)
		}
	}
}

// gathered is the rows of one column that belong to a batch.
type gathered struct {
	buf    unified.Buffer
	tensor unified.Tensor
}

// gather copies the rows, on the device in the order of stream, which is nil where the CPU does it.
func (g *gathered) gather(stream *device.Stream, c *column, ids unified.Tensor) (err error) {
	if stream != nil {
		g.tensor, err = c.onDevice.Enqueue(stream, &g.buf, ids)
	} else {
		g.tensor, err = c.store.Gather(&g.buf, ids)
	}
	return err
}
