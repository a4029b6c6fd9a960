package loader

import (
	"cmp"
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"strings"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rowpipe"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
)

// remote returns what has the rows that are not here; nil for none.
func (a *asked) remote(src Source) (*tiers.Remote, error) {
	from := a.Hooks.Remote
	if from == nil && a.RowsFrom != "" {
		if !addressOfRows(a.RowsFrom) {
			return nil, refuse("RowsFrom", " is %q: must be such as grpc://HOST:PORT or "+
				"grpc+tls://HOST:PORT, with commas between servers of other ranges of ids, and | between those of one",
				a.RowsFrom)
		}
		from = &program{address: a.RowsFrom}
	}
	if from == nil {
		return nil, nil
	}
	id := src.ID()
	return &tiers.Remote{Remote: from, Dataset: hex.EncodeToString(id[:])}, nil
}

// addressOfRows reports whether servers of rows may have such an address: a path, an account or a space it has not.
func addressOfRows(address string) bool {
	scheme, hosts, _ := strings.Cut(address, "://")
	return (scheme == "grpc" || scheme == "grpc+tls") && hosts != "" && !strings.ContainsAny(hosts, "/?#@ ")
}

// program is the Remote that runs one, which links what brings rows: khop does not.
type program struct {
	address string
	runs    *rowpipe.Program
}

// Has chooses columns of several numbers a row; the others are few bytes, and lie here.
func (*program) Has(c *tier.Column) bool { return len(c.Data.Shape()) > 1 }

// Open starts the program, which asks its servers for the columns.
func (p *program) Open(_ context.Context, dataset string, columns []tier.Column) error {
	path, err := exec.LookPath(cmp.Or(os.Getenv("KHOP_ROWS"), "khop-rows"))
	if err != nil {
		return refuse("RowsFrom", " needs the program khop-rows: build it in "+
			"integrations/flight (go build ./khop-rows), and put it into PATH or set KHOP_ROWS: %w", err)
	}
	var list []rowpipe.Column
	for i := range columns {
		list = append(list, rowpipe.Of(columns[i].Type, columns[i].Name, columns[i].Data))
	}
	command := exec.Command(path, "--pipe", p.address) // it ends when this process does: at the end of its input
	command.Stderr = os.Stderr
	if p.runs, err = rowpipe.Start(command, dataset, list); err != nil {
		return option.Textf("%s of %s: %w", called("RowsFrom"), p.address, err)
	}
	return nil
}

// Fetch asks the program.
func (p *program) Fetch(ctx context.Context, i int, rows []int64, to []byte) error {
	return p.runs.Fetch(ctx, i, rows, to)
}

// Close ends the program.
func (p *program) Close() error {
	if p.runs == nil {
		return nil
	}
	return p.runs.Close()
}
