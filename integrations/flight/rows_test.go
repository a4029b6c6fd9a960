package flight_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/flight"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// dataset writes one and opens it.
func dataset(t testing.TB, nodes int64, width int) *formats.Dataset {
	t.Helper()
	path := filepath.Join(t.TempDir(), "g.khop")
	if err := generate(path, nodes, width); err != nil {
		t.Fatal(err)
	}
	ds, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

// serve runs a server until the test ends, or stop is called.
func serve(t testing.TB, s *flight.Server) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		o.Hooks.Tier = tier
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

func id(ds *formats.Dataset) string {
	id := ds.ID()
	return hex.EncodeToString(id[:])
}

func TestDigestsAreThoseOfRowsThatAreHere(t *testing.T) {
	ds := dataset(t, 900, 9)
	want, err := digests(t, ds, options(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, client := certificate(t)
	whole, _ := serve(t, &flight.Server{Dataset: ds})
	closed, _ := serve(t, &flight.Server{Dataset: ds, Token: "t", TLS: secret})
	low, _ := serve(t, &flight.Server{Dataset: ds, Part: 0, Parts: 2})
	high, _ := serve(t, &flight.Server{Dataset: ds, Part: 1, Parts: 2})
	dying, stop := serve(t, &flight.Server{Dataset: ds, Part: 1, Parts: 2})
	for name, c := range map[string]struct {
		rows    flight.Rows
		between func()
	}{
		"one server":             {rows: flight.Rows{Servers: [][]string{{whole}}}},
		"a cache of all":         {rows: flight.Rows{Servers: [][]string{{whole}}, CacheBytes: 1 << 20}},
		"a cache of 100 rows":    {rows: flight.Rows{Servers: [][]string{{whole}}, CacheBytes: 8500}},
		"TLS and a token":        {rows: flight.Rows{Servers: [][]string{{closed}}, Token: "t", TLS: client}},
		"two ranges":             {rows: flight.Rows{Servers: [][]string{{low}, {high}}}},
		"a replica that dies":    {rows: flight.Rows{Servers: [][]string{{low}, {dying, high}}}, between: stop},
		"a replica that is none": {rows: flight.Rows{Servers: [][]string{{"127.0.0.1:1", low}, {high}}}},
	} {
		c.rows.Schema, c.rows.Dataset = ds.Graph().Schema(), id(ds)
		got, err := digests(t, ds, options(&c.rows), c.between)
		if !slices.Equal(got, want) {
			t.Errorf("%s: other batches (%v)", name, err)
		}
	}
}

func TestWhatIsWrongWithServersIsAnErrorThatNamesThem(t *testing.T) {
	ds, other := dataset(t, 900, 9), dataset(t, 800, 9)
	secret, client := certificate(t)
	whole, _ := serve(t, &flight.Server{Dataset: ds})
	strange, _ := serve(t, &flight.Server{Dataset: other})
	closed, _ := serve(t, &flight.Server{Dataset: ds, Token: "t", TLS: secret})
	for said, rows := range map[string]flight.Rows{
		"its dataset of column feature is": {Servers: [][]string{{strange}}},
		"its end of column feature is":     {Servers: [][]string{{whole}, {whole}}},
		"token is missing or wrong":        {Servers: [][]string{{closed}}, Token: "u", TLS: client},
		"127.0.0.1:1":                      {Servers: [][]string{{"127.0.0.1:1"}}},
	} {
		rows.Schema, rows.Dataset = ds.Graph().Schema(), id(ds)
		if _, err := digests(t, ds, options(&rows), nil); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, want %q", err, said)
		}
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := &flight.Server{Dataset: ds, Token: "t"}
	if err := open.Serve(context.Background(), l); !errors.Is(err, flight.ErrOptions) {
		t.Errorf("a token goes over the network as it is: %v", err)
	}
}

// certificate makes one for 127.0.0.1, and what trusts it.
func certificate(t testing.TB) (server, client credentials.TransportCredentials) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(signed)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}}),
		credentials.NewTLS(&tls.Config{RootCAs: trusted})
}

func generate(path string, nodes int64, width int) error {
	_, err := synthetic.Generate(context.Background(), "sbm", path, synthetic.Options{Nodes: nodes, Edges: 8 * nodes,
		Features: width})
	return err
}
