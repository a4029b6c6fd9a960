package embed

import (
	"fmt"
	"time"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// The ways to sum rows.
const (
	None     = ""
	Resident = "resident"
	Sweeps   = "sweeps"
	Gather   = "gather"
)

// StepReport says how a step is carried out, and what came of it.
type StepReport struct {
	Step   string
	Nodes  int64
	Way    string // None, Resident, Sweeps or Gather
	Passes int    // ranges of nodes: how often the tables are read from one end to the other
	Memory int64  // that it takes

	held  bool  // its tables stay in memory
	room  int64 // bytes of a range
	edges int64
	cache int64 // bytes of caches of rows
	asks  int64 // rows that are known ahead

	Read, Written, Requests int64   // so far
	Took                    float64 // seconds
}

// Report is what a run came to.
type Report struct{ Steps []StepReport }

func (r *run) report() *Report {
	out := &Report{}
	for _, s := range r.plans {
		out.Steps = append(out.Steps, *s)
	}
	return out
}

func clock() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// bytesOf returns what a node of a step takes of memory, without its edges, and what an edge takes.
func (r *run) bytesOf(s *Step, way string) (node, edge int64) {
	for _, t := range s.Own {
		node += 4 * int64(t.Width)
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		node += 4 * int64(rel.Table.Width)
		more, each := int64(8+8+4*rel.Heads), int64(0) // where edges begin, the next one, and sums of weights
		if rel.Reduce == Attend {
			more += 8 * int64(rel.Heads)
		}
		size := r.p.Graph.Indices().DType().Size()
		if way == Sweeps || !r.topology.views(rel.Edges) || rel.Loops {
			each = size
		}
		if way != Sweeps {
			each += map[Reduce]int64{Norm: 4, Attend: 4 * int64(rel.Heads)}[rel.Reduce]
		}
		if way == Gather {
			each += 4
		}
		node, edge = max(node, node+more), max(edge, each)
	}
	return node, edge
}

// fixed returns what a step takes beside its ranges: blocks that are read, rows that are made, and degrees.
func (r *run) fixed(s *Step, way string) (bytes int64) {
	rows := int64(s.Rows)
	if rows == 0 {
		rows = applyRows
	}
	for _, t := range s.To {
		bytes += 2 * 4 * rows * int64(t.Width)
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		if rel.Reduce == Norm {
			bytes += 4 * rel.Table.Rows
		}
		if way == Sweeps {
			bytes += 5 * r.blockBytes()
		}
	}
	return bytes + 4*r.blockBytes()
}

// nearBytes returns what the tables of a step's sums take in memory.
func (r *run) nearBytes(s *Step) (bytes int64) {
	for i := range s.Sums {
		for _, t := range s.Sums[i].tables() {
			if !t.near {
				bytes += t.size()
			}
			if !t.plain() && (!t.DType.IsHalf() || t.Normalise) {
				bytes += t.Rows * 4 * int64(t.Width)
			}
		}
	}
	return bytes
}

// residentRange is how many bytes a range has whose operands are in memory anyway.
const residentRange = 32 << 20

// plan decides how each step is carried out.
func (r *run) plan() error {
	r.ledger.SetLimit(r.opt.Memory + r.opt.Memory/16)
	held := int64(0)
	for k, s := range r.p.Steps {
		now := &StepReport{Step: s.Name, Nodes: r.of[k].count}
		r.plans = append(r.plans, now)
		r.countEdges(now, s, r.of[k])
		if err := r.planStep(now, s, r.opt.Memory-held); err != nil {
			return err
		}
		if r.readBy(s, k) { // and is no result
			size := int64(0)
			for _, t := range s.To {
				size += t.size()
			}
			if size <= (r.opt.Memory-held)/4 && !r.opt.Files {
				now.held, held = true, held+size
			}
		}
	}
	return nil
}

// readBy reports whether steps after k read all tables that a step makes.
func (r *run) readBy(s *Step, k int) bool {
	for _, t := range s.To {
		if !r.readAfter(t, k) {
			return false
		}
	}
	return true
}

func (r *run) countEdges(now *StepReport, s *Step, of nodes) {
	for i := range s.Sums {
		rel := &s.Sums[i]
		if of.list == nil {
			now.edges += r.p.Graph.Schema().Edges[rel.Edges].Count
			continue
		}
		for _, v := range of.list {
			lo, hi := r.topology.between(rel.Edges, int64(v))
			now.edges += hi - lo
		}
	}
}

func (r *run) planStep(now *StepReport, s *Step, memory int64) error {
	if len(s.Sums) == 0 {
		now.room, now.Passes = residentRange, 1
		return nil
	}
	near := r.nearBytes(s)
	if left := memory - r.fixed(s, Resident) - near; r.opt.Way == Resident || r.opt.Way == "" && left > residentRange {
		now.Way, now.Passes, now.room = Resident, 1, min(max(left, 1<<20), residentRange)
		return nil
	}
	if r.opt.Way == Gather {
		return r.planGather(now, s, memory)
	}
	now.Way = Sweeps
	node, edge := r.bytesOf(s, Sweeps)
	left, all := memory-r.fixed(s, Sweeps), node*now.Nodes+edge*now.edges
	least := node * r.unit(s)
	if left < least {
		return fmt.Errorf("%w: %s takes %s for a range of %d nodes beside %s for blocks of rows, and the limit is %s; "+
			"allow more", pinned.ErrLimit, s.Name, machine.Bytes(least), r.unit(s), machine.Bytes(r.fixed(s, Sweeps)),
			machine.Bytes(r.opt.Memory))
	}
	now.Passes = int((all + left - 1) / max(left, 1))
	now.Passes = max(now.Passes, 1)
	now.room = min(left, all/int64(now.Passes)+all/int64(now.Passes)/64+least)
	now.Memory = now.room + r.fixed(s, Sweeps)
	return nil
}

// planGather divides memory: a quarter for the rows of ranges, a quarter for what is known ahead, and the rest for
// caches.
func (r *run) planGather(now *StepReport, s *Step, memory int64) error {
	now.Way = Gather
	row, states := int64(0), int64(0)
	for i := range s.Sums {
		rel := &s.Sums[i]
		states += rel.Table.Rows * 3 / 16
		for _, t := range rel.tables() {
			row += t.rowBytes()
			states += 5*t.Rows + gatherDepth<<16
		}
	}
	left := memory - r.fixed(s, Gather) - states
	node, edge := r.bytesOf(s, Gather)
	edge += 3 * row // at most: two ranges of rows, and one of them as float32
	if all := node*now.Nodes + edge*now.edges; all < left/4 {
		now.room = all + 1
	} else {
		now.room = left / 4
	}
	least := r.unit(s) * (node + edge*(now.edges/max(now.Nodes, 1)))
	if now.room < least {
		return fmt.Errorf("%w: %s takes %s for the rows of a range of %d nodes, and %s are left of %s; allow more",
			pinned.ErrLimit, s.Name, machine.Bytes(least), r.unit(s), machine.Bytes(left), machine.Bytes(r.opt.Memory))
	}
	now.asks = left / 4 / (2 * diskio.AskBytes)
	now.cache = left / 4
	now.Passes = 1
	now.Memory = left + r.fixed(s, Gather) + states
	return nil
}

// unit is what ranges of nodes are multiples of.
func (r *run) unit(s *Step) int64 {
	if s.Rows > 0 {
		return int64(s.Rows)
	}
	return 256
}

// rangeEnd returns where a range ends that begins at a node.
func (r *run) rangeEnd(s *Step, of nodes, lo, most int64) int64 {
	unit := r.unit(s)
	node, edge := r.bytesOf(s, r.now.Way)
	for hi, bytes := lo, int64(0); ; {
		next := min((hi/unit+1)*unit, most)
		bytes += node * (next - hi)
		if edge > 0 {
			for i := range s.Sums {
				if of.list == nil && r.topology.byte8 == nil && r.topology.byte16 == nil {
					bytes += edge * (r.topology.indptr[next] - r.topology.indptr[hi])
					continue
				}
				for at := hi; at < next; at++ {
					from, to := r.topology.between(s.Sums[i].Edges, of.at(at))
					bytes += edge * (to - from)
				}
			}
		}
		if bytes > r.now.room && hi > lo || next == most {
			if next == most && (bytes <= r.now.room || hi == lo) {
				return most
			}
			return hi
		}
		hi = next
	}
}
