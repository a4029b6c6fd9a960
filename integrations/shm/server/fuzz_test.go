//go:build linux

package server

import (
	"os"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// FuzzServer: no messages of a consumer make the server fail, or keep it from serving the next one.
func FuzzServer(f *testing.F) {
	f.Add(start(wire.Begin{Run: 1}), wire.AppendNext(nil, 1, 1, []uint32{0, 1}),
		pair(wire.KindStop, 1, 0))
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
		k := expect.Must(wire.Dial(t.Context(), s.path))(t)
		defer k.Close()
		for _, m := range [][]byte{hello(good), a, b, c, pair(wire.KindBye, 0, 0)} {
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
