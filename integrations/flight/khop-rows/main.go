// Command khop-rows answers with rows of a dataset's node columns by Arrow Flight, for loaders of other machines.
//
//	khop-rows DATASET --listen :8815 [--part 0/4] [--token-file FILE] [--cert FILE --key FILE]
//	khop-rows DATASET --ask a:8815|b:8815,c:8815 [--cache BYTES] [--token-file FILE] [--ca FILE]
//
// The second line loads an epoch with rows of servers, or with --ask here with those of this machine, and prints what
// that took, and a digest of all batches, which is the same.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/formats"
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

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("khop-rows DATASET", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8815", "address to listen at")
	part := flags.String("part", "0/1", "which of several equal ranges of ids, from 0 on")
	token := flags.String("token-file", "", "file with the token that clients must show")
	cert := flags.String("cert", "", "certificate of this server, PEM")
	key := flags.String("key", "", "its key, PEM")
	ask := asking{maxBatches: -1}
	flags.StringVar(&ask.servers, "ask", "", "measure an epoch with rows of these servers: A|REPLICA,B; here: none")
	flags.Int64Var(&ask.cache, "cache", 0, "bytes of rows that --ask keeps; of a cache of the disk with --disk")
	flags.StringVar(&ask.ca, "ca", "", "certificate that --ask trusts, PEM")
	disk := flags.Bool("disk", false, "with --ask here: read rows from the disk, as --residence disk does")
	flags.IntVar(&ask.maxBatches, "batches", -1, "batches that --ask loads; -1: an epoch")
	if len(args) == 0 {
		return fmt.Errorf("name a dataset")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ds, err := formats.Open(args[0])
	if err != nil {
		return err
	}
	defer ds.Close()
	s := &flight.Server{Dataset: ds}
	if n, err := fmt.Sscanf(*part, "%d/%d", &s.Part, &s.Parts); n != 2 || err != nil {
		return fmt.Errorf("--part %q: must be such as 0/4", *part)
	}
	if *token != "" {
		text, err := os.ReadFile(*token)
		if err != nil {
			return err
		}
		s.Token = string(bytes.TrimSpace(text))
	}
	if ask.servers != "" {
		if ask.servers == "here" {
			ask.servers, ask.diskCache = "", ask.cache
		}
		ask.token = s.Token
		if *disk {
			ask.residence = loader.Disk
		}
		return ask.measure(ctx, ds)
	}
	if *cert != "" {
		if s.TLS, err = credentials.NewServerTLSFromFile(*cert, *key); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("rows of %s at %s\n", args[0], l.Addr())
	return s.Serve(ctx, l)
}
