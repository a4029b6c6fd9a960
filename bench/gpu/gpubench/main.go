// Command gpubench runs one measurement of a CUDA device and prints it as a JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/khop-gnn/khop/bench/gpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	result, err := gpu.Run(ctx, os.Args[1:])
	stop()
	if result != nil { // with an error it is what was measured before
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", " ")
		err = errors.Join(err, out.Encode(result))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpubench:", err)
		os.Exit(1)
	}
}
