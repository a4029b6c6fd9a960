package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
)

// warmup is how many batches a consumer takes before it measures.
const warmup = 200

// consume connects to a server, takes batches and prints how long that took.
func consume(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: feed consume SOCKET BATCHES")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := consumer.Dial(ctx, args[0], consumer.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var (
		taken int
		bytes int64
		begin time.Time
	)
	for epoch := uint64(0); taken < warmup+n; epoch++ {
		for b, err := range c.Epoch(ctx, epoch) {
			if err != nil {
				return err
			}
			if taken++; taken == warmup {
				begin = time.Now()
			}
			if taken == 1 {
				for _, a := range b.Arrays() {
					bytes += int64(len(a.Tensor.Bytes()))
				}
			}
			if taken == warmup+n {
				break
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(measured{n, time.Since(begin).Seconds(), float64(bytes)})
}
