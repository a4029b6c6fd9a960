// Package shm has the types that both sides of the feed share: errors, statistics and arrays. The feed brings batches
// to other processes through shared memory. docs/feed.md specifies the protocol.
//
// # Basics
//
// A server (package server) loads batches into memory that consumers map, and announces them over a Unix socket,
// without copies or serialisation. Each rank has a ring of memory with its own loader, or several consumers read one
// ring.
//
//	s, err := server.New(ctx, ds, server.Options{Path: "/run/user/1000/khop/feed", Loader: options})
//	err = s.Serve(ctx)
//
// A consumer (package consumer) is the other side in Go; integrations/python has one in Python.
//
//	c, err := consumer.Dial(ctx, "/run/user/1000/khop/feed", consumer.Options{})
//	for batch, err := range c.Epoch(ctx, 0) { ... batch.Array("node/node/feature") ... }
//
// A request for the next batch acknowledges the earlier ones. After a restart of either side exactly the batches that
// were not acknowledged come again. The memory of a batch goes back later, when the consumer is done with it.
//
// Batches that are made on a CUDA device stay there for consumers that take them there (consumer.Options.Device): they
// open the server's device memory. Others get copies on the host.
//
// # Caveats
//
// The feed needs Linux: elsewhere everything returns errors.ErrUnsupported.
//
// Server and consumer belong to the same user and trust each other's data. They do not trust each other's messages: no
// message makes the other side touch memory outside the ring, or allocate without bound. Device memory has less
// protection: docs/feed.md, "On a device".
//
// A batch at the consumer is valid until the loop body ends, or if the body called Keep, until Release. A consumer that
// keeps all the slots it may hold gets no more batches.
package shm
