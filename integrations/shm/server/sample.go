package server

import (
	"context"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
)

// heldTimeout is how long a request waits for an answer to be released. Its consumer's messages are not read meanwhile.
// A variable for tests only.
var heldTimeout = time.Second

// answers reports whether the rank has no epochs: its consumers ask for batches, any number of them at a time.
func (r *rank) answers() bool { return r.server.answers() }

func (s *Server) answers() bool { return s.opt.Loader.Seeds.String() == loader.OnRequest().String() }

// checkAnswers refuses options of epochs, where there are none.
func (s *Server) checkAnswers() error {
	if o := &s.opt; s.answers() && (o.Readers > 0 || o.Epochs > 0 || o.StateFile != "" || o.WorldSize > 1 || s.within) {
		return fmt.Errorf("%w: broadcasts, epochs, ranks and state files are of epochs, but seeds come with requests",
			shm.ErrOptions)
	}
	return nil
}

// sample answers SAMPLE, in the goroutine of the connection: its requests are answered in their order. An error in a
// request that was read is the answer, and the connection continues.
func (p *peer) sample(m wire.Sample, sets []byte) error {
	r := p.rank
	seeds, err := m.Seeds(sets)
	switch {
	case err != nil:
		return err
	case !r.answers():
		return fmt.Errorf("%w: SAMPLE to a server that loads epochs", wire.ErrMessage)
	}
	if p.socket.Ended() { // nobody waits for what it has asked
		return nil
	}
	if held := r.heldBy(p); held >= p.hold {
		p.complain(m.Run, fmt.Errorf("you hold %d batches, which is all that you may: return some", held))
		return nil
	}
	b, err := p.await(loader.Request{Seeds: seeds, Epoch: m.Epoch, Number: m.Number})
	if err != nil {
		p.complain(m.Run, err)
		return nil
	}
	r.hand(p, m.Run, b)
	return nil
}

// soon is how long an answer may take before somebody looks whether its consumer is still there.
const soon = 10 * time.Millisecond

// await makes the batch of a request, as long as its consumer is there: slots that it holds are free when it has died.
func (p *peer) await(r loader.Request) (*loader.Batch, error) {
	ctx, cancel := context.WithCancel(context.Background())
	looked := make(chan struct{})
	look := time.AfterFunc(soon, func() {
		defer close(looked)
		if p.socket.AwaitEnd(ctx) == nil {
			cancel()
		}
	})
	b, err := p.rank.loader.Sample(ctx, r)
	cancel()
	if !look.Stop() {
		<-looked // it uses the socket as who receives does
	}
	return b, err
}

func (r *rank) heldBy(p *peer) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(p.held)
}

// hand gives a consumer the batch that it has asked for.
func (r *rank) hand(p *peer, run uint32, b *loader.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := uint32(b.Slot())
	h, rec := &r.slots[slot], &r.records[slot]
	h.batch, h.consumers = b, 1
	p.held[slot] = time.Now()
	p.announce(wire.Batch{Run: run, Slot: slot, Epoch: b.Epoch, Number: b.Number, Segment: rec.segment, Size: rec.size,
		Offset: rec.offset, Next: b.State().Next})
	r.sent++
}
