package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/internal/wholefile"
)

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
	out := timeline.Output(c.Target, c.Force, orForce, c.Traces...)
	read := func(path string) ([]byte, error) { return readTrace(path, env.memory.bytes) }
	parse := func(_ string, text []byte) (*timeline.Trace, error) { return timeline.Read(text) }
	return combine(env, out, read, parse, timeline.Merge)
}

// readTrace reads a trace, compressed or not. Within a limit of memory it may have an eighth of that: what is read of
// it takes several times as much.
func readTrace(path string, limit int64) ([]byte, error) {
	most := int64(mostTrace)
	if limit > 0 {
		most = min(most, limit/8)
	}
	text, err := wholefile.Read(path, most)
	if err != nil || !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, err
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paths.Text(path), err)
	}
	text, err = io.ReadAll(io.LimitReader(z, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%w: more than %s", wholefile.ErrLong, machine.Bytes(most))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paths.Text(path), err)
	}
	return text, nil
}
