// Package pipe is a tier of memory outside khop: rows of columns come over a pipe from another process, which may have
// them from anywhere. It uses what khop exports and nothing else, and khop knows nothing of it.
package pipe

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Pipe is the tier of the node columns of one name. For each worker of a loader it runs a process that answers with
// Serve.
type Pipe struct {
	Column  string           // such as "feature"
	Command func() *exec.Cmd // makes the process
	columns []tier.Column
}

var _ tier.Chooser = (*Pipe)(nil)

// buffered is what a process takes on this side, twice: for what it writes, and for what it reads.
const buffered = 64 << 10

// Has implements tier.Chooser.
func (p *Pipe) Has(c *tier.Column) bool { return c.NodeType >= 0 && c.Name == p.Column }

// Cost implements tier.Tier.
func (p *Pipe) Cost(b tier.Bound) tier.Memory {
	return tier.Memory{Scratch: int64(b.Workers) * 2 * buffered}
}

// Open implements tier.Tier.
func (p *Pipe) Open(_ context.Context, env tier.Env) error {
	p.columns = env.Columns
	return nil
}

// Stats implements tier.Tier.
func (p *Pipe) Stats() (tier.Stats, error) { return tier.Stats{}, nil }

// Close implements tier.Tier.
func (p *Pipe) Close() error { return nil }

// Reader implements tier.Tier.
func (p *Pipe) Reader(w tier.Worker) (_ tier.Reader, err error) {
	if err := w.Ledger.Take(pinned.Scratch, 2*buffered); err != nil {
		return nil, err
	}
	r := &reader{columns: p.columns, ledger: w.Ledger, process: p.Command()}
	to, err := r.process.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	from, err := r.process.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.stdin, r.to, r.from = to, bufio.NewWriterSize(to, buffered), bufio.NewReaderSize(from, buffered)
	if err := r.process.Start(); err != nil {
		r.stdin = nil
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// reader asks one process.
type reader struct {
	tier.Later

	columns []tier.Column
	ledger  *pinned.Ledger
	process *exec.Cmd
	stdin   io.Closer // nil: no process runs
	to      *bufio.Writer
	from    *bufio.Reader
}

// Begin implements tier.Reader: a goroutine asks for the rows when all that was begun before is there.
func (r *reader) Begin(ctx context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	ids, err := w.CopyIDs()
	if err != nil || len(ids) == 0 {
		return true, err
	}
	rows, err := s.Room(w.Array, int64(len(ids))*r.columns[w.Column].Data.RowBytes())
	if err != nil {
		return false, err
	}
	r.Fetch(ctx, func(context.Context) error { return r.fetch(int64(w.Column), ids, rows) })
	return false, nil
}

// fetch asks for rows: a column, how many ids, and the ids; and reads them.
func (r *reader) fetch(column int64, ids []int64, rows []byte) error {
	err := binary.Write(r.to, binary.LittleEndian, append([]int64{column, int64(len(ids))}, ids...))
	if err = errors.Join(err, r.to.Flush()); err != nil {
		return fmt.Errorf("ask %v for rows: %w", r.process.Args, err)
	}
	if _, err := io.ReadFull(r.from, rows); err != nil {
		return fmt.Errorf("rows of %v: %w", r.process.Args, err)
	}
	return nil
}

// Close implements tier.Reader: the process ends at the end of its input.
func (r *reader) Close() (err error) {
	r.ledger.Give(pinned.Scratch, 2*buffered)
	if r.stdin != nil {
		err = errors.Join(r.stdin.Close(), r.process.Wait())
	}
	return err
}

// Serve answers a Pipe until its input ends, with the rows of the columns that the pipe has: columns[Want.Column].
func Serve(from io.Reader, to io.Writer, columns ...unified.Tensor) error {
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	for {
		var head [2]int64
		if err := binary.Read(in, binary.LittleEndian, &head); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		ids, column := make([]int64, head[1]), columns[head[0]]
		if err := binary.Read(in, binary.LittleEndian, ids); err != nil {
			return err
		}
		for _, id := range ids {
			row, err := column.Rows(id, id+1)
			if err != nil {
				return err
			}
			if _, err := out.Write(row.Bytes()); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
