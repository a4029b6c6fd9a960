//go:build linux

package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// sampleMessage is a SAMPLE of two nodes.
func sampleMessage(run uint32) []byte {
	b, _ := wire.AppendSample(nil, wire.Sample{Run: run, Number: uint64(run)}, graph.NodeIDs([]int64{1, 2}))
	return b
}

// letHold says how long requests wait for answers to be released.
func letHold(t *testing.T, d time.Duration) {
	was := heldTimeout
	heldTimeout = d
	t.Cleanup(func() { heldTimeout = was })
}

// A connection that ends while its requests wait for a slot gives up what it holds at once, and its requests with it.
func TestAConnectionThatEndsKeepsNoSlotWhileItsRequestsWait(t *testing.T) {
	letHold(t, 2*patience)
	s := serve(t, plainGraph(t, 500), Options{Loader: onRequest(), Hold: 64})
	left := s.ranks[0].loader.Stats().Slots - 1
	dies := sendWith(t, s, hello(good))
	next(t, dies, wire.KindWelcome)
	expect.OK(t, dies.Send(sampleMessage(1), -1, patience))
	next(t, dies, wire.KindBatch)
	for left > 0 {
		hoards := sendWith(t, s, hello(good))
		next(t, hoards, wire.KindWelcome)
		for run := range uint32(min(left, s.ranks[0].hold)) {
			expect.OK(t, hoards.Send(sampleMessage(run+1), -1, patience))
			next(t, hoards, wire.KindBatch)
			left--
		}
	}
	for run := range uint32(5) {
		expect.OK(t, dies.Send(sampleMessage(run+2), -1, patience))
	}
	waits := sendWith(t, s, hello(good))
	next(t, waits, wire.KindWelcome)
	expect.OK(t, waits.Send(sampleMessage(1), -1, patience), dies.Close())
	next(t, waits, wire.KindBatch) // of the slot that the other one had
}

// playAsker asks for batches for ever, in one of three ways: a request at a time, of which it holds some answers; as
// many at a time as the socket takes; and the same without reading any.
func playAsker(socket string, way int) {
	if way == 0 {
		c := expect.Must(consumer.Dial(context.Background(), socket, consumer.Options{}))(program{})
		fmt.Println("asking")
		var held []*consumer.Batch
		for number := uint64(0); ; number++ {
			b, err := c.Sample(context.Background(), loader.Request{Seeds: graph.NodeIDs([]int64{1}), Number: number})
			if err == nil {
				held = append(held, b)
			}
			if len(held) > 2 || err != nil && len(held) > 0 {
				held[0].Release()
				held = held[1:]
			}
		}
	}
	fd := expect.Must(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0))(program{})
	expect.OK(program{}, unix.Connect(fd, &unix.SockaddrUnix{Name: socket}))
	expect.OK(program{}, unix.Sendmsg(fd, hello(good), nil, nil, 0))
	fmt.Println("asking")
	if way == 1 {
		go func() {
			for room := make([]byte, wire.MaxMessage); ; {
				_, _, _, _, _ = unix.Recvmsg(fd, room, make([]byte, 64), unix.MSG_CMSG_CLOEXEC)
			}
		}()
	}
	for run := uint32(1); ; run++ {
		_ = unix.Sendmsg(fd, sampleMessage(run), nil, nil, 0)
	}
}

// busy is how many slots consumers have, and how many consumers there are.
func (s *serving) busy() (slots, consumers int) {
	for _, r := range s.ranks {
		r.mu.Lock()
		for _, h := range r.slots {
			slots += min(h.consumers, 1)
		}
		consumers += len(r.peers)
		r.mu.Unlock()
	}
	return slots, consumers
}

// TestKilledAskersKeepNoSlots kills consumers, in groups of up to 60, at drawn moments, and looks how long slots stay
// with them. KHOP_DRAWS says how many are killed.
func TestKilledAskersKeepNoSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	s := serve(t, plainGraph(t, 500), Options{Loader: onRequest(), Hold: 4, MaxConsumers: 100})
	var took []time.Duration
	for left := expect.Draws(t, 24); left > 0; {
		group := make([]*player, min(left, 1+r.IntN(60)))
		left -= len(group)
		for i := range group {
			group[i] = play(t, fmt.Sprintf("ask %d", r.IntN(3)), s.path, "")
		}
		for _, p := range group {
			p.wait(t, "asking", nil)
		}
		<-time.After(time.Duration(r.IntN(50_000)) * time.Microsecond) // a drawn moment
		var last time.Time
		for _, i := range r.Perm(len(group)) {
			last = group[i].kill(t)
			<-time.After(time.Duration(r.IntN(500)) * time.Microsecond)
		}
		for slots, consumers := s.busy(); slots+consumers > 0; slots, consumers = s.busy() {
			expect.Ensure(t, time.Since(last) < patience, "%d slots stay with %d killed consumers", slots, consumers)
			<-time.After(time.Millisecond) // to look again
		}
		took = append(took, time.Since(last))
		for _, p := range group {
			p.rest()
			_ = p.Wait()
		}
	}
	slices.Sort(took)
	t.Logf("slots are free %v after the last kill of %d groups, at most %v", took[len(took)/2], len(took),
		took[len(took)-1])
	expect.That(t, took[len(took)-1] < heldTimeout || os.Getenv("KHOP_DRAWS") == "", "slots are kept for %v", took)
}
