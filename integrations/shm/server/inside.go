package server

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/loader"
)

// Inside serves one rank to one consumer in the same process, with the messages of docs/feed.md, but through shared
// memory: there is no socket, neither side calls the other, and the consumer reads and writes batches where the loader
// has put them. Methods may be called at any time by any goroutine. Close it.
type Inside struct {
	server *Server
	cancel context.CancelFunc
	served sync.WaitGroup // the server's loop, and the consumer's connection
	once   sync.Once
	err    error

	mu     sync.Mutex // guards the following
	closed bool
}

// NewInside makes the loader of rank opt.Loader.Rank of opt.WorldSize, which has all memory and workers of opt, and its
// ring, and serves the consumer at the other end of w. opt.Path is ignored, and no other consumer can connect: Readers
// and StateFile are refused. src and the memory of w must stay valid until Close, which closes w.Bell. Errors: those of
// New.
func NewInside(ctx context.Context, src loader.Source, opt Options, w Within) (*Inside, error) {
	if opt.Readers > 0 || opt.StateFile != "" {
		return nil, fmt.Errorf("%w: broadcasts and state files need a server of their own", shm.ErrOptions)
	}
	opt.Path = "within this process"
	s, err := newServer(ctx, src, opt, true)
	if err != nil {
		return nil, err
	}
	i := &Inside{server: s}
	serving, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	s.receive(serving, &mailbox{Within: w})
	i.served.Go(func() { _ = s.Serve(serving) })
	return i, nil
}

// Segment returns the bytes of an announced segment, on a device its address and length, and the memory that holds
// them. They are valid until the caller closes that memory, also after Close: nothing else writes to batches that were
// not returned.
func (i *Inside) Segment(number uint32) (data []byte, memory io.Closer, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		if all := i.server.ranks[0].arena.all(); uint64(number) < uint64(len(all)) {
			m := all[number]
			m.Keep()
			return m.Data, m, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: segment %d is not there", shm.ErrClosed, number)
}

// Close ends the loader, waits until nothing of it runs, and frees all memory but the segments that the consumer has.
// Batches that the consumer holds stay as they are. Later calls return the first result.
func (i *Inside) Close() error {
	i.once.Do(func() {
		i.mu.Lock()
		i.closed = true
		i.mu.Unlock()
		i.cancel()
		i.served.Wait()
		i.err = i.server.Close()
	})
	return i.err
}

// Options returns the options that were given, as Server.Options does.
func (i *Inside) Options() Options { return i.server.Options() }
