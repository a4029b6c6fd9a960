// Command blocks writes the blocks of one batch of a dataset for the benchmark of operations: for each layer the files
// LAYER.indptr and LAYER.indices, int32, and a line on stdout with layer, rows, columns and edges.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
)

func main() {
	log.SetFlags(0)
	fanouts := flag.String("fanouts", "15,10,5", "fan-outs, hop by hop")
	batch := flag.Int("batch-size", 1024, "seeds of the batch")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("give a dataset and a folder")
	}
	if err := write(flag.Arg(0), flag.Arg(1), *fanouts, *batch); err != nil {
		log.Fatal(err)
	}
}

func write(dataset, folder, fanouts string, size int) error {
	ds, err := formats.Open(dataset)
	if err != nil {
		return err
	}
	defer ds.Close()
	kind, err := samplers.Named("neighbor")
	if err != nil {
		return err
	}
	sampler, err := kind.Make(given.Values{"fanouts": fanouts, "frontier": "all"})
	if err != nil {
		return err
	}
	ld, err := loader.New(ds, loader.Options{Sampler: sampler,
		BatchSize: size, Shuffle: true,
		Device: loader.DeviceOptions{Name: "cpu"}})
	if err != nil {
		return err
	}
	defer ld.Close()
	for batch, err := range ld.Epoch(context.Background(), 0) {
		if err != nil {
			return err
		}
		for layer, blocks := range batch.Sample.Blocks {
			b := &blocks[0]
			fmt.Println(layer, b.NumDst, b.NumSrc, b.NumEdges())
			for name, t := range map[string][]byte{"indptr": b.Indptr.Bytes(), "indices": b.Indices.Bytes()} {
				path := filepath.Join(folder, fmt.Sprintf("%d.%s", layer, name))
				if err := os.WriteFile(path, t, 0o644); err != nil {
					return err
				}
			}
		}
		break
	}
	return nil
}
