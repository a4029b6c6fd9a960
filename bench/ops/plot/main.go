// Command plot draws a plot that it reads as JSON from standard input (internal/plot) to a file, as SVG.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/khop-gnn/khop/internal/plot"
	"github.com/khop-gnn/khop/internal/wholefile"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("give the file to write")
	}
	var p plot.Plot
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		log.Fatal(err)
	}
	file := wholefile.Output{Path: os.Args[1], Mode: 0o644, Ours: plot.Ours}
	if err := file.Write(context.Background(), p.Write); err != nil {
		log.Fatal(err)
	}
}
