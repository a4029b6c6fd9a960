// Package lines reads a text of a foreign format line by line.
package lines

import (
	"bufio"
	"context"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// every is after how many lines the context is asked and progress is reported.
const every = 4096

// Each calls take for each line of a text, which may be compressed, with its number from 1 on. The line is valid until
// take returns. What decompressing keeps is counted in r's budget.
//
// Errors: one of take becomes a *formats.Error with file and line and the remedy given; so does a line of more than
// source.MaxRecord bytes, or what cannot be read or decompressed. context.Cause(ctx) once ctx is done.
func Each(ctx context.Context, at source.Place, r *source.Request, remedy string,
	take func(line int64, text []byte) error) error {
	f, err := source.OpenCounted(at.OpenText, r.Budget.Ledger())
	if err != nil {
		return err
	}
	defer f.Close()
	s, line := bufio.NewScanner(f), int64(1)
	s.Buffer(nil, source.MaxRecord)
	for ; s.Scan(); line++ {
		if line%every == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.Report("read", f.Done(), f.Size)
		}
		if err := take(line, s.Bytes()); err != nil {
			return source.Error(f.Path, "", line, remedy, err)
		}
	}
	if err := s.Err(); err != nil {
		return source.Error(f.Path, "", line, "the file is cut short or damaged", err)
	}
	return nil
}
