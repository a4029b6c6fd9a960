package flight_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/flight"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/rows"
	"github.com/khop-gnn/khop/sampling"
)

// TestMain is khop-rows, too, where a loader starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "--pipe" {
		os.Exit(m.Run())
	}
	err := flight.Pipe(context.Background(), os.Stdin, os.Stdout, func() (*flight.Rows, error) {
		return flight.At(os.Args[2], os.Getenv("TOKEN"), os.Getenv("CA"))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dataset writes one and opens it.
func dataset(t testing.TB, nodes int64, width int) *formats.Dataset {
	t.Helper()
	path := filepath.Join(t.TempDir(), "g.khop")
	expect.Must(synthetic.Generate(t.Context(), "sbm", path, synthetic.Options{Nodes: nodes, Edges: 8 * nodes,
		Features: width}))(t)
	ds := expect.Must(formats.Open(path))(t)
	t.Cleanup(func() { ds.Close() })
	return ds
}

// serve runs a server until the test ends, or stop is called.
func serve(t testing.TB, s *flight.Server) (address string, stop func()) {
	t.Helper()
	l := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended <- context.Canceled
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func options(tier *flight.Rows) loader.Options {
	o := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{4, 3}}, BatchSize: 40,
		Shuffle: true, Seed: 7, Workers: 3}
	o.Device.Name = "cpu"
	if tier != nil {
		o.Hooks.Remote, o.Disk.CacheBytes = tier, 8500 // 100 rows, or somewhat more
	}
	return o
}

// digests returns those of two epochs. between is called after some batches of the first.
func digests(t testing.TB, ds *formats.Dataset, opt loader.Options, between func()) (all [][2]uint64, err error) {
	t.Helper()
	l, err := loader.New(ds, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for epoch := range uint64(2) {
		for b, err := range l.Epoch(context.Background(), epoch) {
			if err != nil {
				return nil, err
			}
			topology, full := b.Digest()
			if all = append(all, [2]uint64{topology, full}); len(all) == 5 && between != nil {
				between()
			}
		}
	}
	return all, nil
}

func TestDigestsAreThoseOfRowsThatAreHere(t *testing.T) {
	ds := dataset(t, 900, 9)
	want := expect.Must(digests(t, ds, options(nil), nil))(t)
	secret, client := certificate(t)
	whole, _ := serve(t, &flight.Server{Dataset: ds})
	closed, _ := serve(t, &flight.Server{Dataset: ds, Token: "t", TLS: secret})
	low, _ := serve(t, &flight.Server{Dataset: ds, Part: 0, Parts: 2})
	high, _ := serve(t, &flight.Server{Dataset: ds, Part: 1, Parts: 2})
	dying, stop := serve(t, &flight.Server{Dataset: ds, Part: 1, Parts: 2})
	for name, c := range map[string]struct {
		rows    *flight.Rows
		between func()
	}{
		"one server":             {rows: &flight.Rows{Servers: [][]string{{whole}}}},
		"TLS and a token":        {rows: &flight.Rows{Servers: [][]string{{closed}}, Token: "t", TLS: client}},
		"two ranges":             {rows: &flight.Rows{Servers: [][]string{{low}, {high}}}},
		"a replica that dies":    {rows: &flight.Rows{Servers: [][]string{{low}, {dying, high}}}, between: stop},
		"a replica that is none": {rows: &flight.Rows{Servers: [][]string{{"127.0.0.1:1", low}, {high}}}},
	} {
		got, err := digests(t, ds, options(c.rows), c.between)
		if !slices.Equal(got, want) {
			t.Errorf("%s: other batches (%v)", name, err)
		}
	}
}

func TestALoaderAsksByAProgram(t *testing.T) {
	ds := dataset(t, 900, 9)
	want := expect.Must(digests(t, ds, options(nil), nil))(t)
	secret, der := certificateFile(t)
	closed, _ := serve(t, &flight.Server{Dataset: ds, Token: "t", TLS: secret})
	folder := t.TempDir()
	for name, text := range map[string]string{"token": "t\n", "wrong": "u", "ca": der} {
		expect.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	program := expect.Must(os.Executable())(t)
	t.Setenv("KHOP_ROWS", program)
	t.Setenv("CA", filepath.Join(folder, "ca"))
	opt := options(nil)
	opt.Disk.CacheBytes = 8500
	for token, said := range map[string]string{"token": "", "wrong": "token is missing or wrong",
		"none": "no such file"} {
		t.Setenv("TOKEN", filepath.Join(folder, token))
		from := expect.Must(rows.From("grpc+tls://" + closed))(t)
		opt.Hooks.Remote = from
		got, err := digests(t, ds, opt, nil)
		if said == "" && (err != nil || !slices.Equal(got, want)) ||
			said != "" && (err == nil || !strings.Contains(err.Error(), said)) {
			t.Errorf("%s: %v; %d batches", token, err, len(got))
		}
	}
}

func TestWhatIsWrongWithServersIsAnErrorThatNamesThem(t *testing.T) {
	ds, other := dataset(t, 900, 9), dataset(t, 800, 9)
	secret, client := certificate(t)
	whole, _ := serve(t, &flight.Server{Dataset: ds})
	strange, _ := serve(t, &flight.Server{Dataset: other})
	closed, _ := serve(t, &flight.Server{Dataset: ds, Token: "t", TLS: secret})
	for said, rows := range map[string]*flight.Rows{
		"its dataset of column feature is": {Servers: [][]string{{strange}}},
		"its end of column feature is":     {Servers: [][]string{{whole}, {whole}}},
		"token is missing or wrong":        {Servers: [][]string{{closed}}, Token: "u", TLS: client},
		"127.0.0.1:1":                      {Servers: [][]string{{"127.0.0.1:1"}}},
	} {
		if _, err := digests(t, ds, options(rows), nil); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, want %q", err, said)
		}
	}
	l := expect.Must(net.Listen("tcp", ":0"))(t)
	defer l.Close()
	open := &flight.Server{Dataset: ds, Token: "t"}
	if err := open.Serve(context.Background(), l); !errors.Is(err, flight.ErrOptions) {
		t.Errorf("a token goes over the network as it is: %v", err)
	}
}

// certificate makes one for 127.0.0.1, and what trusts it.
func certificate(t testing.TB) (server, client credentials.TransportCredentials) {
	t.Helper()
	server, text := certificateFile(t)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(text))
	return server, credentials.NewTLS(&tls.Config{RootCAs: trusted})
}

// certificateFile makes one, and the text of the file that says what trusts it.
func certificateFile(t testing.TB) (server credentials.TransportCredentials, text string) {
	t.Helper()
	s := httptest.NewTLSServer(nil) // which has one
	defer s.Close()
	return credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates}),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}
