// Command fromjson draws a plot, which it reads as JSON (plot.Plot) from standard input, to a file. bench/ops/draw.py
// runs it.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/khop-gnn/khop/cmd/khop/internal/plot"
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
	file := plot.File(os.Args[1], false, "")
	if err := file.Write(context.Background(), plot.Sheet{&p}.Draw(os.Args[1])); err != nil {
		log.Fatal(err)
	}
}
