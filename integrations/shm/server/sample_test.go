//go:build linux

package server

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// onRequest are loader options of a server that answers requests.
func onRequest() loader.Options {
	o := usual()
	o.Seeds, o.Shuffle = loader.OnRequest(), false
	return o
}

// asksFor asks for nodes of two types.
func asksFor(number uint64, ids ...int64) loader.Request {
	seeds := graph.NodeIDs(ids)
	seeds.Sets = append(seeds.Sets, graph.SeedSet{Type: 1, IDs: graph.NodeIDs([]int32{3, 1}).Sets[0].IDs})
	return loader.Request{Seeds: seeds, Epoch: 2, Number: number}
}

// Consumers that ask at a time get what a loader answers in its own process.
func TestAServerAnswersRequestsOfAnyConsumers(t *testing.T) {
	g := typedGraph(t)
	s := serve(t, g, Options{Loader: onRequest(), Hold: 4})
	own := expect.Must(loader.New(g, onRequest()))(t)
	defer own.Close()
	var all sync.WaitGroup
	for i := range 3 {
		c := connect(t, s, consumer.Options{})
		all.Go(func() {
			for number := range uint64(20) {
				r := asksFor(number, int64(i), int64(number), int64(i))
				got, err := c.Sample(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				want := expect.Must(own.Sample(t.Context(), r))(t)
				topology, full := want.Digest()
				text := line(want.Epoch, want.Number, false, want.State().Next, topology, full)
				expect.That(t, lineOf(got) == text, "consumer %d, request %d: %s, want %s", i, number, lineOf(got),
					text)
				got.Release()
				want.Release()
			}
		})
	}
	all.Wait()
}

// A faulty request gets an error, and others are answered; a consumer that holds all the answers it may gets an error
// too.
func TestAServerSaysWhatIsWrongWithARequest(t *testing.T) {
	s := serve(t, typedGraph(t), Options{Loader: onRequest(), Hold: 2})
	c := connect(t, s, consumer.Options{})
	for says, r := range map[string]loader.Request{"nodes of type": asksFor(0, 300), "34 seeds": asksFor(0,
		make([]int64, 32)...)} {
		_, err := c.Sample(t.Context(), r)
		told := (*shm.Error)(nil)
		expect.That(t, errors.As(err, &told) && told.Code == wire.CodeLoad && strings.Contains(err.Error(), says),
			"%v, want %q", err, says)
	}
	_, err := c.Sample(t.Context(), asksFor(0, make([]int64, 9000)...))
	expect.Is(t, err, shm.ErrOptions, "more than a message has room for")
	held := []*consumer.Batch{expect.Must(c.Sample(t.Context(), asksFor(0, 1)))(t),
		expect.Must(c.Sample(t.Context(), asksFor(1, 1)))(t)}
	first := lineOf(held[0])
	_, err = c.Sample(t.Context(), asksFor(2, 1))
	expect.That(t, err != nil && strings.Contains(err.Error(), "you hold 2"), "%v", err)
	held[1].Release()
	again := expect.Must(c.Sample(t.Context(), asksFor(0, 1)))(t)
	expect.That(t, lineOf(again) == first && lineOf(held[0]) == first, "%s, %s: want %s", lineOf(again),
		lineOf(held[0]), first)
	for _, err := range c.Epoch(t.Context(), 0) {
		expect.That(t, err != nil && strings.Contains(err.Error(), "come with requests"), "an epoch: %v", err)
	}
	_, err = connect(t, serve(t, plainGraph(t, 100), Options{}), consumer.Options{}).Sample(t.Context(), asksFor(0, 1))
	expect.That(t, err != nil && strings.Contains(err.Error(), "loads epochs"), "a server of epochs: %v", err)
}

// A SAMPLE that does not add up ends its connection, with the reason.
func TestASampleThatDoesNotAddUpIsRefused(t *testing.T) {
	s := serve(t, typedGraph(t), Options{Loader: onRequest()})
	whole, _ := wire.AppendSample(nil, wire.Sample{Run: 1}, graph.NodeIDs([]int64{1, 2}))
	change := func(at int, value uint32) []byte {
		b := append([]byte(nil), whole...)
		binary.LittleEndian.PutUint32(b[at:], value)
		return b
	}
	cut := append([]byte(nil), whole[:len(whole)-4]...)
	binary.LittleEndian.PutUint32(cut[4:], uint32(len(cut)))
	binary.LittleEndian.PutUint32(cut[12:], uint32(len(cut)-32))
	for name, b := range map[string][]byte{"no run": change(8, 0), "a size that is not there": change(12, 1<<31),
		"more ids than bytes": change(36, 1<<31), "a type beyond all": change(32, 1<<31), "cut": cut,
		"times that are not there": change(0, uint32(wire.KindSample)|wire.Timed<<16),
		"other flags":              change(0, uint32(wire.KindSample)|4<<16)} {
		k := sendWith(t, s, hello(good))
		expect.OK(t, k.Send(b, -1, time.Second))
		_, said := expect.Must2(wire.Parse[wire.Text](next(t, k, wire.KindError)))(t)
		expect.That(t, strings.Contains(string(said), "bad message"), "%s: %s", name, said)
	}
}

func TestServersOfRequestsHaveNoEpochs(t *testing.T) {
	for name, opt := range map[string]Options{"ranks": {WorldSize: 2}, "epochs": {Epochs: 3}, "readers": {Readers: 2}} {
		opt.Loader, opt.Path = onRequest(), socketPath(t)
		_, err := New(t.Context(), plainGraph(t, 100), opt)
		expect.That(t, errors.Is(err, shm.ErrOptions) && strings.Contains(err.Error(), "come with requests"), "%s: %v",
			name, err)
	}
}
