//go:build linux

package server

import (
	"os"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// FuzzServer: no messages of a consumer make the server fail, or keep it from serving the next one.
func FuzzServer(f *testing.F) {
	f.Add(start(wire.Begin{Run: 1}), wire.AppendNext(nil, 1, 1, []uint32{0, 1}), pair(wire.KindStop, 1, 0))
	f.Add(start(wire.Begin{Run: 1, Mode: wire.BeginState}, []byte(`{"epoch":1e99}`)...),
		pair(wire.KindAsk, wire.AskState, 1),
		pair(wire.KindBye, 0, 0))
	f.Add(start(wire.Begin{Run: 1<<32 - 1, Epoch: 1<<32 - 1, Next: 1<<64 - 1}), start(wire.Begin{Run: 1,
		Mode: wire.BeginGoOn}),
		hello(good))
	f.Add(start(wire.Begin{Run: 1}), start(wire.Begin{Run: 2, Epoch: 5}), start(wire.Begin{Run: 3,
		Mode: wire.BeginGoOn}))
	s := serve(f, plainGraph(f, 100), Options{Hold: 2})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		babble(t, s, a, b, c)
		next, err := consumer.Dial(t.Context(), s.path, consumer.Options{})
		expect.Ensure(t, err == nil, "the next consumer: %v", err)
		defer next.Close()
		n := 0
		for _, err := range next.Epoch(t.Context(), 0) {
			expect.Ensure(t, err == nil, "the next consumer: %v", err)
			n++
		}
		expect.Ensure(t, n == 4, "the next consumer got %d batches", n)
	})
}

// FuzzRequests: the same of a server that answers requests.
func FuzzRequests(f *testing.F) {
	whole, _ := wire.AppendSample(nil, wire.Sample{Run: 1, Epoch: 2, Number: 3}, asksFor(0, 5, 6, 5).Seeds)
	timed := graph.NodeIDs([]int64{1, 2})
	timed.Sets[0].Times = []int64{-1, 1 << 62}
	late, _ := wire.AppendSample(nil, wire.Sample{Run: 1<<32 - 1, Epoch: 1<<32 - 1, Number: 1<<64 - 1}, timed)
	f.Add(whole, late, wire.AppendNext(nil, 0, 0, []uint32{0, 1}))
	f.Add(whole, whole, whole)
	f.Add(start(wire.Begin{Run: 1}), whole, pair(wire.KindAsk, wire.AskState, 1))
	g := typedGraph(f)
	s := serve(f, g, Options{Loader: onRequest(), Hold: 2})
	own := expect.Must(loader.New(g, onRequest()))(f)
	defer own.Close()
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		babble(t, s, a, b, c)
		next, err := consumer.Dial(t.Context(), s.path, consumer.Options{})
		expect.Ensure(t, err == nil, "the next consumer: %v", err)
		defer next.Close()
		got, err := next.Sample(t.Context(), asksFor(4, 5, 6, 5))
		expect.Ensure(t, err == nil, "the next consumer: %v", err)
		defer got.Release()
		want := expect.Must(own.Sample(t.Context(), asksFor(4, 5, 6, 5)))(t)
		defer want.Release()
		topology, full := want.Digest()
		text := line(want.Epoch, want.Number, false, want.State().Next, topology, full)
		expect.Ensure(t, lineOf(got) == text, "the next consumer got %s, want %s", lineOf(got), text)
	})
}

// babble sends messages between HELLO and BYE, and reads until the server ends the connection.
func babble(t *testing.T, s *serving, messages ...[]byte) {
	k := expect.Must(wire.Dial(t.Context(), s.path))(t)
	defer k.Close()
	for _, m := range append(append([][]byte{hello(good)}, messages...), pair(wire.KindBye, 0, 0)) {
		if len(m) > 0 && len(m) <= 2*wire.MaxMessage {
			_ = k.Send(m, -1, time.Second) // the server may have had enough
		}
	}
	end, room := time.Now().Add(patience), make([]byte, wire.MaxMessage)
	for {
		_, fd, err := k.Receive(t.Context(), end, room)
		wire.CloseDescriptor(fd)
		expect.Ensure(t, !os.IsTimeout(err), "the server did not end the connection")
		if err != nil {
			break
		}
	}
}
