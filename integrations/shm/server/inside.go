package server

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
)

// Inside serves one rank to one consumer in the same process, in the messages of docs/feed.md, but through calls: there
// is no socket, and the consumer reads and writes batches where the loader has put them. Methods may be called at any
// time by any goroutine. Close it.
type Inside struct {
	server *Server
	pipe   pipe
	ctx    context.Context
	cancel context.CancelFunc
	served chan struct{} // closed when the server's loop has ended

	mu   sync.Mutex // held while a message is handled
	peer *peer
	over bool // no message is handled any more
	once sync.Once
	err  error
}

// NewInside makes the loader of rank opt.Loader.Rank of opt.WorldSize, which has all memory and workers of opt, and its
// ring. opt.Path has no meaning, and nobody else can connect: Readers and StateFile are refused. wake is called, by any
// goroutine, when there is something to take for a consumer that found nothing; it must not wait. src must stay open
// until Close. Errors: those of New.
func NewInside(ctx context.Context, src loader.Source, opt Options, wake func()) (*Inside, error) {
	if opt.Readers > 0 || opt.StateFile != "" {
		return nil, fmt.Errorf("%w: broadcasts and state files need a server of their own", shm.ErrOptions)
	}
	opt.Path = "within this process"
	s, err := newServer(ctx, src, opt, true)
	if err != nil {
		return nil, err
	}
	i := &Inside{server: s, served: make(chan struct{})}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.pipe.wake = wake
	i.peer = &peer{server: s, socket: &i.pipe, outbox: outbox{socket: &i.pipe}, since: time.Now()}
	s.meet(i.peer)
	go func() {
		defer close(i.served)
		_ = s.Serve(i.ctx)
	}()
	return i, nil
}

// Put handles a message of the consumer, HELLO first. What is wrong with it the server says in a message of its own.
// shm.ErrClosed after that, after BYE and after Close.
func (i *Inside) Put(message []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return shm.ErrClosed
	}
	p, more, err := i.peer, true, error(nil)
	if p.rank == nil {
		i.pipe.offer(message)
		err = p.greet(i.ctx)
	} else if more, err = p.handle(message); err != nil {
		err = blame(err)
	}
	if err != nil {
		p.leave(err)
	}
	if err != nil || !more {
		i.over = true
		return i.pipe.Close()
	}
	return nil
}

// Take copies the server's next message to room, of wire.MaxMessage bytes, and returns its length; 0 where there is
// none yet, and io.EOF where none will come.
func (i *Inside) Take(room []byte) (int, error) { return i.pipe.take(room) }

// Segment is a segment of the ring that its consumer has too.
type Segment struct {
	Data   []byte // on a device: its address and length
	memory *wire.Memory
}

// Address returns where the segment begins.
func (s *Segment) Address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s.Data))) }

// Close gives the segment back. Its memory goes with whoever has it last, the ring or a consumer.
func (s *Segment) Close() error { return s.memory.Close() }

// Segment returns a segment that was announced, for as long as its consumer wants it: also after Close nobody else
// writes to batches that were not returned. The caller closes it.
func (i *Inside) Segment(number uint32) (*Segment, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.peer; p.rank != nil {
		if all := p.rank.arena.all(); uint64(number) < uint64(len(all)) {
			m := all[number]
			m.Keep()
			return &Segment{m.Data, m}, nil
		}
	}
	return nil, fmt.Errorf("%w: segment %d is not there", shm.ErrClosed, number)
}

// Close ends the loader, waits until nothing of it runs, and frees all but the segments that the consumer has. Batches
// that it holds stay as they are. Later calls return the first result.
func (i *Inside) Close() error {
	i.once.Do(func() {
		i.cancel() // first, so that no worker takes a slot that comes back
		<-i.served
		i.mu.Lock()
		defer i.mu.Unlock()
		i.over = true
		_ = i.pipe.Close()
		if p := i.peer; p.rank != nil {
			_ = p.rank.detach(p)
		}
		i.server.part(i.peer)
		i.err = i.server.Close()
	})
	return i.err
}

// Options returns the options in effect, as Server.Options does.
func (i *Inside) Options() Options { return i.server.Options() }
