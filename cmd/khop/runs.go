package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/cmd/khop/internal/mergetrace"
	"github.com/khop-gnn/khop/cmd/khop/internal/runreport"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/tracefile"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

type reportCmd struct {
	Target string   `arg:"" type:"path" help:"HTML file to write."`
	Runs   []string `arg:"" help:"Files with what khop commands printed by --json or --jsonl."`
	Force  bool     `help:"Replace a file that is not a khop report."`
}

// mostReported is how many bytes of a run are read.
const mostReported = 16 << 20

// Run writes the report.
func (c *reportCmd) Run(env *environment) error {
	out := runreport.Output(c.Target, c.Force, orForce, c.Runs...)
	if err := out.Check(); err != nil {
		return err
	}
	var all []*runreport.Run
	for _, path := range out.From {
		text, err := wholefile.Read(path, mostReported)
		if err != nil {
			return err
		}
		run, err := runreport.Read(paths.Text(filepath.Base(path)), text, saidOf)
		if err != nil {
			return fmt.Errorf("%s: %w", paths.Text(path), err)
		}
		all = append(all, run)
	}
	return out.Write(env.ctx, func(w io.Writer) error { return runreport.Write(w, all) })
}

// saidOf is the sentence of a report.
func saidOf(text json.RawMessage) string {
	var r loader.Report
	if json.Unmarshal(text, &r) != nil {
		return ""
	}
	return sentence(r)
}

type traceCmd struct {
	Merge traceMergeCmd `cmd:"" help:"Merge traces of khop and other programs into one file."`
}

type traceMergeCmd struct {
	Target string   `arg:"" type:"path" help:"File to write."`
	Traces []string `arg:"" help:"Chrome traces: JSON files, plain or gzip."`
	Force  bool     `help:"Replace a file that is not a khop trace."`
}

// mostTrace is how many bytes of a trace are read.
const mostTrace = 2 << 30

// Run merges.
func (c *traceMergeCmd) Run(env *environment) error {
	out := tracefile.Output(c.Target, c.Force, orForce, c.Traces...)
	if err := out.Check(); err != nil {
		return err
	}
	var all []*mergetrace.Trace
	for _, path := range c.Traces {
		t, err := mergetrace.Read(paths.Text(path), func() (io.ReadCloser, error) { return openTrace(path) })
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	return out.Write(env.ctx, func(w io.Writer) error { return mergetrace.Merge(w, all) })
}

// traceFile is a trace that is read as it comes, compressed or not.
type traceFile struct {
	io.Reader
	file *os.File
	left int64
}

func openTrace(path string) (io.ReadCloser, error) {
	f, _, err := wholefile.Open(path)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(f, 1<<16)
	t := &traceFile{in, f, mostTrace}
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		if t.Reader, err = gzip.NewReader(in); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return t, nil
}

// Read implements io.Reader.
func (t *traceFile) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if t.left -= int64(n); t.left < 0 {
		return 0, fmt.Errorf("%w: more than %s", wholefile.ErrLong, machine.Bytes(mostTrace))
	}
	return n, err
}

// Close implements io.Closer.
func (t *traceFile) Close() error { return t.file.Close() }
