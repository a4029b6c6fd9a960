//go:build linux

package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// reproach says what a server answers to a message of a consumer that holds two batches: an ERROR, or that it goes on.
func reproach(t *testing.T, s *serving, message []byte) string {
	t.Helper()
	k := raw(t, s)
	defer k.Close()
	for _, m := range [][]byte{hello(good), start(wire.Begin{Run: 1})} {
		expect.OK(t, k.Send(m, -1, time.Second))
	}
	for range 5 { // WELCOME, BEGUN, SEGMENT, and as many batches as may be held
		if b, err := answer(t, k); err != nil {
			t.Fatal(b, err)
		}
	}
	expect.OK(t, k.Send(message, -1, time.Second))
	_ = k.Send(pair(wire.KindBye, 0, 0), -1, time.Second) // it may have ended the connection
	ended := ""
	for {
		b, err := answer(t, k)
		if err != nil {
			return "it goes on" + ended
		}
		if kindOf(b) == wire.KindEnd {
			m, _ := expect.Must2(wire.Parse[wire.End](b))(t)
			ended += fmt.Sprintf(", run %d ended for reason %d", m.Run, m.Reason)
		}
		if kindOf(b) != wire.KindError {
			continue
		}
		m, text := expect.Must2(wire.Parse[wire.Text](b))(t)
		return fmt.Sprintf("run %d, code %d, %s", m.First, m.Second, expect.TextLine(t, string(text), ""))
	}
}

// Errors name the fault in a consumer's message: the same for the same message.
func TestWhatIsSaidOfMessagesIsKnown(t *testing.T) {
	s := serve(t, plainGraph(t, 200), Options{Hold: 2, MaxConsumers: 400})
	state := []byte(`{"semantics":1,"epoch":0,"next":0}`)
	sound := [][]byte{start(wire.Begin{Run: 2}), start(wire.Begin{Run: 2, Mode: wire.BeginState}, state...),
		start(wire.Begin{Run: 3, Epoch: 5, Next: 1}), wire.AppendNext(nil, 1, 1, nil),
		wire.AppendNext(nil, 1, 2, []uint32{77}), pair(wire.KindStop, 1, 0), pair(wire.KindStop, 7, 0),
		pair(wire.KindAsk, wire.AskState, 1),
		pair(wire.KindAsk, wire.AskStatistics, 2), pair(wire.KindBye, 0, 0), hello(good)}
	numbers := []uint64{0, 1, 2, 3, 7, 8, 127, 1 << 16, 1 << 31, 1 << 32, 1<<40 - 1, 1 << 62, 1 << 63, 1<<64 - 1}
	r := rand.New(rand.NewPCG(20261123, 8))
	var got bytes.Buffer
	for i := range 150 {
		m := slices.Clone(sound[i%len(sound)])
		at, v := 4*r.IntN((len(m)-4)/4), numbers[r.IntN(len(numbers))]
		switch {
		case i < len(sound): // as it is
		case kindOf(m) == wire.KindNext: // but not the slots: which ones hold the batches differs
			binary.LittleEndian.PutUint32(m[min(at, 20):], uint32(v))
		case r.IntN(2) == 0:
			binary.LittleEndian.PutUint32(m[at:], uint32(v))
		default:
			binary.LittleEndian.PutUint64(m[min(at, len(m)-8):], v)
		}
		fmt.Fprintf(&got, "%d, %v: %s\n", i, kindOf(sound[i%len(sound)]), reproach(t, s, m))
	}
	expect.Golden(t, "testdata/said.txt", got.String())
}
