package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/convert"
)

func TestItReachesItsFigure(t *testing.T) {
	if err := run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestItReachesItsFigureOnCora(t *testing.T) {
	data := os.Getenv("KHOP_TESTDATA")
	if data == "" {
		t.Skip("KHOP_TESTDATA is not set: no real graphs")
	}
	path := filepath.Join(t.TempDir(), "cora.khop")
	if _, err := convert.Run(t.Context(), filepath.Join(data, "planetoid-cora"), path, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	if accuracy, err := train(t.Context(), path); err != nil || accuracy < 0.76 {
		t.Fatalf("accuracy %.3f: %v", accuracy, err)
	}
}
