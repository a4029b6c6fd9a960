// Package shm feeds batches to other processes through shared memory. docs/feed.md specifies the protocol.
//
// # Basics
//
// A Server loads batches into memory that consumers map, and announces them over a Unix socket: nothing is copied,
// nothing is serialised. There is one ring of memory a rank, with a loader of its own, or one ring that several
// consumers read.
//
//	s, err := shm.NewServer(ctx, ds, shm.Options{Path: "/run/user/1000/khop/feed", Loader: options})
//	err = s.Serve(ctx)
//
// A Consumer is the other side in Go; there is one in Python too (integrations/python).
//
//	c, err := shm.Dial(ctx, "/run/user/1000/khop/feed", shm.ConsumerOptions{})
//	for batch, err := range c.Epoch(ctx, 0) { ... batch.Array("node/node/feature") ... }
//
// Asking for the next batch acknowledges those before it; a batch that was not acknowledged comes again after a restart
// of either side, and no other does. The memory of a batch goes back apart from that, when the consumer is done with
// it.
//
// Batches that are made on a CUDA device stay there for consumers that take them there (ConsumerOptions.Device): they
// open the server's device memory. Others get copies on the host.
//
// # Caveats
//
// Linux only: elsewhere everything returns errors.ErrUnsupported.
//
// Server and consumer belong to the same user and trust each other's data. They do not trust each other's messages:
// nothing that one sends makes the other touch memory outside the ring, or allocate without bound. Device memory
// protects less: docs/feed.md, "On a device".
//
// A batch at the consumer is valid until the loop body ends, or if the body called Keep, until Release. A consumer that
// keeps all the slots it may hold gets no more batches.
package shm
