// Package server serves the batches of a dataset to other processes: the loading side of the feed (integrations/shm).
//
//	s, err := server.New(ctx, ds, server.Options{Path: "/run/user/1000/khop/feed", Loader: options})
//	err = s.Serve(ctx)
//
// Each rank has a loader and a ring of memory that the loader fills and consumers map. A loop for each rank makes the
// runs that consumers request; a goroutine for each consumer reads its messages.
package server
