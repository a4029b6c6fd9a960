// Command train learns the classes of nodes, by mini-batches, in Go alone:
//
//	go run github.com/khop-gnn/khop/examples/train GRAPH.khop
//
// GRAPH.khop has features, labels and splits. Without it the program makes a graph of four communities, on whose test
// nodes it reaches an accuracy of 0.8. On Cora (khop convert planetoid-cora cora.khop) it reaches 0.76.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/gnn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		_, err := train(ctx, args[0])
		return err
	}
	folder, err := os.MkdirTemp("", "train-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "made.khop")
	made := synthetic.Options{Nodes: 2000, Edges: 20_000, Features: 16, Classes: 4, Seed: 1}
	if _, err := synthetic.Generate(ctx, synthetic.SBM, path, made); err != nil {
		return err
	}
	if accuracy, err := train(ctx, path); err != nil || accuracy < 0.8 {
		return fmt.Errorf("accuracy %.2f, want at least 0.8 (%w)", accuracy, err)
	}
	return nil
}

// train returns the accuracy on the test nodes, after the epoch that was best on the validation nodes. Equal options
// give equal models, to the bit.
func train(ctx context.Context, path string) (float64, error) {
	ds, err := formats.Open(path)
	if err != nil {
		return 0, err
	}
	defer ds.Close()
	result, err := gnn.Train(ctx, ds, gnn.Options{
		Model: "sage", Fanouts: []int{10, 10}, BatchSize: 128, Epochs: 30, Hidden: 32, Dropout: 0.5, Decay: 5e-4,
		Checkpoint: path + "-model", // training that was interrupted goes on from it
		Report: func(e gnn.Epoch) {
			if e.Epoch%10 == 0 {
				fmt.Printf("epoch %d: loss %.3f, validation %.3f\n", e.Epoch, e.Loss, e.Val)
			}
		},
	})
	if err != nil {
		return 0, err
	}
	fmt.Printf("test accuracy %.3f, of epoch %d, in %.1f s\n", result.Test, result.Best, result.Seconds)
	return result.Test, nil
}
