// Command khop-rows answers with rows of a dataset's node columns by Arrow Flight, for loaders of other machines.
//
//	khop-rows DATASET --listen :8815 [--part 0/4] [--token-file FILE] [--cert FILE --key FILE]
//	khop-rows DATASET --ask grpc+tls://a:8815|b:8815,c:8815 [--cache BYTES] [--token-file FILE] [--ca FILE]
//	khop-rows --pipe grpc+tls://a:8815|b:8815,c:8815 [--token-file FILE] [--ca FILE]
//
// The second line loads an epoch with rows of servers, or with --ask here with those of this machine, and prints what
// that took, and a digest of all batches, which is the same. The third is what loaders start for rows_from, and answers
// them. The environment's KHOP_ROWS_TOKEN_FILE and KHOP_ROWS_CA stand for --token-file and --ca.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/integrations/flight"
	"github.com/khop-gnn/khop/loader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "khop-rows:", err)
		os.Exit(1)
	}
}

// flags are those of the command line.
type flags struct {
	listen, part, tokenFile, cert, key, ask, ca, pipe string
	asking
	disk bool
}

func parse(args []string) (f flags, dataset string, err error) {
	set := flag.NewFlagSet("khop-rows DATASET", flag.ContinueOnError)
	set.StringVar(&f.listen, "listen", "127.0.0.1:8815", "address to listen at")
	set.StringVar(&f.part, "part", "0/1", "which of several equal ranges of ids, from 0 on")
	set.StringVar(&f.tokenFile, "token-file", os.Getenv("KHOP_ROWS_TOKEN_FILE"),
		"file with the token that clients must show")
	set.StringVar(&f.cert, "cert", "", "certificate of this server, PEM")
	set.StringVar(&f.key, "key", "", "its key, PEM")
	set.StringVar(&f.ask, "ask", "", "measure an epoch with rows of these servers: grpc://A|REPLICA,B; here: none")
	set.Int64Var(&f.cache, "cache", 0, "bytes of rows that --ask keeps")
	set.StringVar(&f.ca, "ca", os.Getenv("KHOP_ROWS_CA"), "certificate that --ask and --pipe trust, PEM")
	set.BoolVar(&f.disk, "disk", false, "with --ask here: read rows from the disk, as --residence disk does")
	set.IntVar(&f.maxBatches, "batches", -1, "batches that --ask loads; -1: an epoch")
	set.StringVar(&f.pipe, "pipe", "", "answer the loader that has started this, with rows of servers")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		dataset, args = args[0], args[1:]
	}
	if err := set.Parse(args); err != nil {
		return f, "", err
	}
	if f.pipe == "" && dataset == "" {
		return f, "", fmt.Errorf("name a dataset")
	}
	return f, dataset, nil
}

func run(ctx context.Context, args []string) error {
	f, dataset, err := parse(args)
	if err != nil {
		return err
	}
	if f.pipe != "" {
		return flight.Pipe(ctx, os.Stdin, os.Stdout, func() (*flight.Rows, error) {
			return flight.At(f.pipe, f.tokenFile, f.ca)
		})
	}
	ds, err := remote.Open(ctx, dataset, remote.Options{})
	if err != nil {
		return err
	}
	defer ds.Close()
	if f.ask != "" {
		if f.disk {
			f.residence = loader.Disk
		}
		if f.ask != "here" {
			if f.rows, err = flight.At(f.ask, f.tokenFile, f.ca); err != nil {
				return err
			}
		}
		return f.measure(ctx, ds)
	}
	s := &flight.Server{Dataset: ds}
	if s.Token, err = flight.ReadToken(f.tokenFile); err != nil {
		return err
	}
	if n, err := fmt.Sscanf(f.part, "%d/%d", &s.Part, &s.Parts); n != 2 || err != nil {
		return fmt.Errorf("--part %q: must be such as 0/4", f.part)
	}
	if f.cert != "" {
		if s.TLS, err = credentials.NewServerTLSFromFile(f.cert, f.key); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	fmt.Printf("rows of %s at %s\n", dataset, l.Addr())
	return s.Serve(ctx, l)
}
