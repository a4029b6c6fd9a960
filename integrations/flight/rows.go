package flight

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/internal/rowpipe"
	"github.com/khop-gnn/khop/loader/tier"
)

// Errors of this package.
var (
	ErrOptions = errors.New("invalid option")         // invalid options
	ErrServers = errors.New("no server has the rows") // all replicas of a range failed, or have another dataset
)

// Rows brings rows of node columns from servers (tier.Remote, loader.Hooks). Loaders request rows ahead of their
// batches, and keep those that they need again soon: Options.Disk says how many.
type Rows struct {
	// Servers are addresses, HOST:PORT, by range of ids: Servers[i] are replicas of part i. If one fails, the next one
	// is used.
	Servers [][]string
	// Columns are the names of columns that servers have. Default: those of several numbers a row.
	Columns []string
	Token   string
	TLS     credentials.TransportCredentials // nil: without

	dataset string // that servers must have
	columns []rowpipe.Column
	closed  context.Context // once it was opened
	close   context.CancelFunc

	mu   sync.Mutex
	idle map[[2]int][]*line // by column and part
}

var _ tier.Remote = (*Rows)(nil)

// At returns rows of the servers at an address, in the form of the option rows-from: grpc://A|REPLICA,B or
// grpc+tls://A|REPLICA,B. A file has the token, if one is named; the servers' certificates are those that the system
// trusts, or the file ca.
func At(address, tokenFile, ca string) (_ *Rows, err error) {
	r := &Rows{}
	if r.Token, err = ReadToken(tokenFile); err != nil {
		return nil, err
	}
	scheme, hosts, ok := strings.Cut(address, "://")
	if !ok || scheme != "grpc" && scheme != "grpc+tls" {
		return nil, fmt.Errorf("%w: %q: must be such as grpc://HOST:PORT or grpc+tls://HOST:PORT", ErrOptions, address)
	}
	for part := range strings.SplitSeq(hosts, ",") {
		r.Servers = append(r.Servers, strings.Split(part, "|"))
	}
	switch {
	case scheme == "grpc+tls":
		trust := &tls.Config{MinVersion: tls.VersionTLS12}
		if ca != "" {
			text, err := os.ReadFile(ca)
			if err != nil {
				return nil, err
			}
			if trust.RootCAs = x509.NewCertPool(); !trust.RootCAs.AppendCertsFromPEM(text) {
				return nil, fmt.Errorf("%w: %s has no certificate in PEM", ErrOptions, ca)
			}
		}
		r.TLS = credentials.NewTLS(trust)
	case r.Token != "" && !r.here():
		return nil, fmt.Errorf("%w: a token goes to %s as it is: take grpc+tls://", ErrOptions, hosts)
	}
	return r, nil
}

// ReadToken returns the contents of a file, without spaces around them; "" without a name.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return string(bytes.TrimSpace(text)), err
}

// here reports whether all servers are of this machine.
func (r *Rows) here() bool {
	for _, at := range slices.Concat(r.Servers...) {
		host, _, _ := net.SplitHostPort(at)
		if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
			return false
		}
	}
	return true
}

// Has implements tier.Remote.
func (r *Rows) Has(c *tier.Column) bool {
	if len(r.Columns) == 0 {
		return len(c.Data.Shape()) > 1
	}
	return slices.Contains(r.Columns, c.Name)
}

// Open implements tier.Remote.
func (r *Rows) Open(ctx context.Context, dataset string, columns []tier.Column) error {
	var list []rowpipe.Column
	for i := range columns {
		list = append(list, rowpipe.Of(columns[i].Type, columns[i].Name, columns[i].Data))
	}
	return r.open(ctx, dataset, list)
}

// Pipe serves a loader of another process, which has started this one for the option rows-from, until its input ends.
// at returns the servers.
func Pipe(ctx context.Context, from io.Reader, to io.Writer, at func() (*Rows, error)) error {
	return rowpipe.Serve(ctx, from, to, func(dataset string, columns []rowpipe.Column) (rowpipe.Fetch, error) {
		r, err := at()
		if err != nil {
			return nil, err
		}
		return r.Fetch, r.open(ctx, dataset, columns)
	})
}

func (r *Rows) open(ctx context.Context, dataset string, columns []rowpipe.Column) error {
	if len(r.Servers) == 0 {
		return fmt.Errorf("%w: Rows wants Servers", ErrOptions)
	}
	r.dataset, r.columns, r.idle = dataset, columns, map[[2]int][]*line{}
	r.closed, r.close = context.WithCancel(context.WithoutCancel(ctx))
	for i := range r.columns { // now, so that mistakes show now
		for n := range r.Servers {
			if err := r.fetch(ctx, i, n, nil, nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fetch implements tier.Remote: it requests the rows of all parts at the same time.
func (r *Rows) Fetch(ctx context.Context, column int, rows []int64, to []byte) error {
	n, parts := r.columns[column].Rows, len(r.Servers)
	each := (n + int64(parts) - 1) / int64(parts)
	places := make([][]int32, parts)
	for i, row := range rows {
		p := row / each
		places[p] = append(places[p], int32(i))
	}
	failures := make([]error, parts)
	var all sync.WaitGroup
	for p, some := range places {
		if len(some) > 0 {
			all.Go(func() { failures[p] = r.fetch(ctx, column, p, rows, some, to) })
		}
	}
	all.Wait()
	return errors.Join(failures...)
}

// fetch asks a part, by a stream that nobody uses.
func (r *Rows) fetch(ctx context.Context, column, part int, rows []int64, places []int32, to []byte) error {
	l := r.take(column, part)
	err := l.fetch(ctx, rows, places, to)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.closed.Err() != nil {
		l.close()
		return err
	}
	r.idle[[2]int{column, part}] = append(r.idle[[2]int{column, part}], l)
	return nil
}

func (r *Rows) take(column, part int) *line {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]int{column, part}
	if n := len(r.idle[key]); n > 0 {
		l := r.idle[key][n-1]
		r.idle[key] = r.idle[key][:n-1]
		return l
	}
	return &line{rows: r, column: column, part: part}
}

// Close implements tier.Remote.
func (r *Rows) Close() error {
	if r.closed == nil {
		return nil
	}
	r.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lines := range r.idle {
		for _, l := range lines {
			l.close()
		}
	}
	clear(r.idle)
	return nil
}
