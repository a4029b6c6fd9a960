// Package rowpipe is how a loader asks a program for rows that another machine has: over pipes, so that the program may
// link what it likes and khop links none of it. Program is the loader's side, Serve the program's.
//
// First comes a line of JSON that says dataset and columns, and is answered by an outcome. A request is a column's
// number, how many rows, and which: integers of 8 bytes, little-endian. Each is answered, in their order, by an outcome
// and the rows. An outcome is the length of a text, 8 bytes, and the text; an empty one says that all is well, else the
// rows are left out.
package rowpipe

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/khop-gnn/khop/unified"
)

// Column is a column of nodes whose rows a program is asked for.
type Column struct {
	Type, Name string // of the node type, of the column
	DType      string
	Row        []int64 // the shape of a row
	Rows       int64
	RowBytes   int64
}

// Of says what there is to know of a column.
func Of(nodeType, name string, data unified.Tensor) Column {
	return Column{nodeType, name, data.DType().String(), data.Shape()[1:], data.Len(), data.RowBytes()}
}

// hello is the first message.
type hello struct {
	Dataset string // the id that the servers must have, in hexadecimal
	Columns []Column
}

// most is the most bytes of a text or of rows that either side believes in.
const most = 1 << 30

// Program is a program that runs, and answers. Any number of goroutines ask it at a time.
type Program struct {
	command *exec.Cmd
	columns []Column
	stdin   io.WriteCloser

	mu     sync.Mutex // of who asks
	to     *bufio.Writer
	asked  chan *request
	broken chan struct{} // closed when no more is answered
	why    error
}

// request is one that is to be answered.
type request struct {
	mu   sync.Mutex
	to   []byte // nil: nobody waits any more
	size int64
	done chan error
}

// Start runs a program, whose command is not started, and tells it what it will be asked for. Close ends it.
func Start(command *exec.Cmd, dataset string, columns []Column) (*Program, error) {
	p := &Program{command: command, columns: columns, asked: make(chan *request, 1024), broken: make(chan struct{})}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.to = stdin, bufio.NewWriter(stdin)
	if err := command.Start(); err != nil {
		return nil, err
	}
	from := bufio.NewReader(stdout)
	err = json.NewEncoder(p.to).Encode(hello{dataset, columns})
	if err = errors.Join(err, p.to.Flush()); err == nil {
		err = p.outcome(from)
	}
	if err != nil {
		close(p.broken)
		return nil, errors.Join(err, p.Close())
	}
	go p.answer(from, p.asked)
	return p, nil
}

// outcome reads one. What the program says of itself is no failure of the pipe.
func (p *Program) outcome(from io.Reader) error {
	var n int64
	if err := binary.Read(from, binary.LittleEndian, &n); err != nil {
		return fmt.Errorf("%s has ended: %w", p.command.Path, err)
	}
	if n == 0 {
		return nil
	}
	if n < 0 || n > most {
		return fmt.Errorf("%s answers in another way than khop asks", p.command.Path)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return fmt.Errorf("%s has ended: %w", p.command.Path, err)
	}
	return said(text)
}

// said is an error that the program tells of.
type said string

func (s said) Error() string { return string(s) }

// answer hands out answers until nothing more is asked.
func (p *Program) answer(from io.Reader, asked <-chan *request) {
	defer close(p.broken)
	for q := range asked {
		err := p.outcome(from)
		var told said
		if err != nil && !errors.As(err, &told) {
			p.why = err
			q.done <- err
			return
		}
		q.mu.Lock()
		switch {
		case err != nil:
		case q.to == nil:
			_, p.why = io.CopyN(io.Discard, from, q.size)
		default:
			_, p.why = io.ReadFull(from, q.to)
		}
		q.mu.Unlock()
		if p.why != nil {
			p.why = fmt.Errorf("%s has ended: %w", p.command.Path, p.why)
			q.done <- p.why
			return
		}
		q.done <- err
	}
}

// Fetch asks for rows of a column, and has them in to, one after another. When it returns nothing is written there.
func (p *Program) Fetch(ctx context.Context, column int, rows []int64, to []byte) error {
	q := &request{to: to, size: int64(len(to)), done: make(chan error, 1)}
	if err := p.ask(q, int64(column), rows); err != nil {
		return err
	}
	select {
	case err := <-q.done:
		return err
	case <-p.broken:
		select {
		case err := <-q.done:
			return err
		default:
			return p.ended()
		}
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		q.to = nil
		return context.Cause(ctx)
	}
}

// ended is the error of who asks when nobody answers.
func (p *Program) ended() error {
	if p.why != nil {
		return p.why
	}
	return fmt.Errorf("%s was ended", p.command.Path)
}

func (p *Program) ask(q *request, column int64, rows []int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.broken:
		return p.ended()
	case p.asked <- q:
	}
	err := binary.Write(p.to, binary.LittleEndian, [2]int64{column, int64(len(rows))})
	if err = errors.Join(err, binary.Write(p.to, binary.LittleEndian, rows), p.to.Flush()); err != nil {
		return fmt.Errorf("%s has ended: %w", p.command.Path, err)
	}
	return nil
}

// Close ends the program, and what is asked of it.
func (p *Program) Close() error {
	_ = p.stdin.Close()
	_ = p.command.Process.Kill()
	_ = p.command.Wait() // it was killed
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != nil {
		close(p.asked)
		p.asked = nil
	}
	<-p.broken
	return nil
}

// atOnce is how many requests a program works at.
const atOnce = 8

// Fetch brings rows of one of the reported columns, one after another. Any number are called at a time.
type Fetch func(ctx context.Context, column int, rows []int64, to []byte) error

// Serve answers a Program until its input ends. open says whether there are such columns, and what brings their rows.
func Serve(ctx context.Context, from io.Reader, to io.Writer,
	open func(dataset string, columns []Column) (Fetch, error)) error {
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var first hello
	if err := json.Unmarshal(line, &first); err != nil {
		return fmt.Errorf("this is for khop to start, which says what it wants: %w", err)
	}
	fetch, err := open(first.Dataset, first.Columns)
	if e := tell(out, err, nil); e != nil || err != nil {
		return e
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, wrote := make(chan chan func() error, atOnce), make(chan error, 1)
	go func() {
		var failed error
		for a := range answers {
			if write := <-a; failed == nil {
				if failed = write(); failed != nil {
					cancel()
				}
			}
		}
		wrote <- failed
	}()
	for err == nil && ctx.Err() == nil {
		err = first.serve(ctx, in, out, fetch, answers)
	}
	close(answers)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, <-wrote)
}

// serve reads a request, and has a goroutine answer it.
func (h *hello) serve(ctx context.Context, in io.Reader, out *bufio.Writer, fetch Fetch,
	answers chan<- chan func() error) error {
	var head [2]int64
	if err := binary.Read(in, binary.LittleEndian, &head); err != nil {
		return err
	}
	if head[0] < 0 || head[0] >= int64(len(h.Columns)) || head[1] < 0 ||
		head[1] > most/max(8, h.Columns[head[0]].RowBytes) {
		return fmt.Errorf("a request for %d rows of column %d of %d", head[1], head[0], len(h.Columns))
	}
	rows := make([]int64, head[1])
	if err := binary.Read(in, binary.LittleEndian, rows); err != nil {
		return err
	}
	answer := make(chan func() error, 1)
	answers <- answer
	go func() {
		bytes := make([]byte, head[1]*h.Columns[head[0]].RowBytes)
		err := fetch(ctx, int(head[0]), rows, bytes)
		answer <- func() error { return tell(out, err, bytes) }
	}()
	return nil
}

// tell writes an outcome, and rows where it is good.
func tell(out *bufio.Writer, err error, rows []byte) error {
	text := ""
	if err != nil {
		text, rows = err.Error(), nil
		if text == "" {
			text = "it failed"
		}
	}
	_ = binary.Write(out, binary.LittleEndian, int64(len(text)))
	_, _ = out.WriteString(text)
	_, _ = out.Write(rows)
	return out.Flush()
}
