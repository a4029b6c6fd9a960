// Package rows brings rows of node columns that other machines have, by the program khop-rows, which links what that
// needs: khop does not.
package rows

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rowpipe"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
)

// From returns a Remote of the servers at an address: grpc://HOST:PORT or grpc+tls://HOST:PORT, with commas between
// servers of other ranges of ids, and | between those of one. It has the columns of several numbers a row. It returns
// loader.ErrOptions for another address.
func From(address string) (tier.Remote, error) {
	if !isAddress(address) {
		return nil, wrong(" is %q: must be such as grpc://HOST:PORT or grpc+tls://HOST:PORT, with commas between "+
			"servers of other ranges of ids, and | between those of one", address)
	}
	return &program{address: address}, nil
}

// wrong returns an error of the option that has the address.
func wrong(format string, args ...any) error {
	return option.Errorf(loader.ErrOptions, struct{}{}, "RowsFrom", format, args...)
}

// isAddress reports whether servers of rows may have such an address: a path, an account or a space it has not.
func isAddress(address string) bool {
	scheme, hosts, _ := strings.Cut(address, "://")
	return (scheme == "grpc" || scheme == "grpc+tls") && hosts != "" && !strings.ContainsAny(hosts, "/?#@ ")
}

// program is the Remote that runs one. Loaders of several devices share it, whose columns are the same.
type program struct {
	address string

	mu   sync.Mutex // guards the following while a loader opens or closes
	runs *rowpipe.Program
	uses int
}

// Has chooses columns of several numbers a row; the others are few bytes, and lie here.
func (*program) Has(c *tier.Column) bool { return len(c.Data.Shape()) > 1 }

// Open starts the program, which asks its servers for the columns.
func (p *program) Open(_ context.Context, dataset string, columns []tier.Column) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uses > 0 {
		p.uses++
		return nil
	}
	path, err := exec.LookPath(cmp.Or(os.Getenv("KHOP_ROWS"), "khop-rows"))
	if err != nil {
		return wrong(" needs the program khop-rows: build it in "+
			"integrations/flight (go build ./khop-rows), and put it into PATH or set KHOP_ROWS: %w", err)
	}
	var list []rowpipe.Column
	for i := range columns {
		list = append(list, rowpipe.Of(columns[i].Type, columns[i].Name, columns[i].Data))
	}
	command := exec.Command(path, "--pipe", p.address) // it ends when this process does: at the end of its input
	command.Stderr = os.Stderr
	if p.runs, err = rowpipe.Start(command, dataset, list); err != nil {
		return option.Textf("%s of %s: %w", option.Named("RowsFrom"), p.address, err)
	}
	p.uses++
	return nil
}

// Fetch asks the program.
func (p *program) Fetch(ctx context.Context, i int, rows []int64, to []byte) error {
	return p.runs.Fetch(ctx, i, rows, to)
}

// Close ends the program with its last loader.
func (p *program) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uses == 0 {
		return nil
	}
	if p.uses--; p.uses > 0 {
		return nil
	}
	return p.runs.Close()
}
