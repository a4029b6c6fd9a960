// Package consumer gets batches from a server of the feed (integrations/shm) in another process.
//
//	c, err := consumer.Dial(ctx, "/run/user/1000/khop/feed", consumer.Options{})
//	for batch, err := range c.Epoch(ctx, 0) { ... batch.Array("node/node/feature") ... }
package consumer
