//go:build linux

package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// sendWith sends a message with descriptors, as no consumer does.
func sendWith(t *testing.T, s *serving, message []byte, fds ...int) *wire.Socket {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: s.path})
	}
	if err == nil {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		err = unix.Sendmsg(fd, message, rights, nil, 0)
	}
	expect.OK(t, err)
	k := expect.Must(wire.OwnSocket(fd))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

func TestAFirstMessageThatIsNoHELLOIsToldSo(t *testing.T) {
	letSilence(t, patience)
	s := serve(t, plainGraph(t, 100), Options{})
	for _, c := range []struct {
		name    string
		message []byte
		fds     []int
	}{
		{"more than 64 KiB", make([]byte, wire.MaxMessage+1), nil},
		{"a descriptor", hello(good), []int{1}},
		{"two descriptors", hello(good), []int{1, 1}},
		{"many descriptors", hello(good), make([]int, 100)},
		{"nothing, with a descriptor", nil, []int{1}},
		{"nothing", nil, nil},
		{"no message", []byte{1}, nil},
	} {
		k := sendWith(t, s, c.message, c.fds...)
		b, err := answer(t, k)
		m, text, parsing := wire.Parse[wire.Text](b)
		if err != nil || parsing != nil || kindOf(b) != wire.KindError || shm.Code(m.Second) != wire.CodeMessage ||
			len(text) == 0 {
			t.Errorf("%s: %v, %+v (%s), want ERROR bad message", c.name, err, m, text)
		}
	}
}

func TestAConnectionThatSaysNothingIsToldSo(t *testing.T) {
	letSilence(t, 100*time.Millisecond)
	b, err := answer(t, raw(t, serve(t, plainGraph(t, 100), Options{})))
	_, text, _ := wire.Parse[wire.Text](b)
	expect.That(t, err == nil && strings.Contains(string(text), "no HELLO came within"), "%v, %s", err, text)
}

func TestADescriptorInAnyMessageIsABadMessage(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	k := raw(t, s)
	expect.OK(t, k.Send(hello(good), -1, time.Second))
	expect.Must(answer(t, k))(t)
	expect.OK(t, k.Send(start(wire.Begin{Run: 1}), 1, time.Second))
	b, err := answer(t, k)
	m, text, _ := wire.Parse[wire.Text](b)
	expect.That(t, err == nil && shm.Code(m.Second) == wire.CodeMessage && strings.Contains(string(text), "descriptor"),
		"%v, %+v (%s)", err, m, text)
}

// logged is a log in memory.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Connections that say nothing, or nothing of use, take no consumer's place and do not fill the log.
func TestStrangersTakeNoPlaceAndFillNoLog(t *testing.T) {
	log := &logged{}
	s := serve(t, plainGraph(t, 100), Options{MaxConsumers: 2, WorldSize: 2,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	const n = 300
	var silent []*wire.Socket
	for range n {
		silent = append(silent, raw(t, s))
		k := raw(t, s)
		expect.OK(t, k.Send(cut(99, 8, 0), -1, time.Second))
	}
	for range 2 {
		lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0))
	}
	_, err := consumer.Dial(t.Context(), s.path, consumer.Options{})
	expect.That(t, code(err) == wire.CodeFull, "the third consumer of two: %v", err)
	if b, err := answer(t, silent[0]); err != nil || kindOf(b) != wire.KindError {
		t.Errorf("the first that said nothing: %v, %v", kindOf(b), err)
	}
	s.end()
	<-s.err
	if text := log.String(); strings.Count(text, "\n") > 20 || !strings.Contains(text, "unsaid=") {
		t.Errorf("the log of %d connections:\n%s", 2*n, text)
	}
}

// A consumer whose place another had is admitted as soon as that one has gone.
func TestAPlaceIsFreeWhenItsConsumerHasGone(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{MaxConsumers: 1})
	for range 20 {
		c := connect(t, s, consumer.Options{})
		expect.OK(t, c.Close())
		until(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.peers) == 0
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expect.That(t, s.consumers == 0 && len(s.strangers) == 0, "%d consumers and %d strangers are left", s.consumers,
		len(s.strangers))
}

func TestARunBeginsNoFurtherThanAnEpochGoes(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{WorldSize: 3}) // 16 batches: the last round ends at 18
	for next, batches := range map[uint64]uint64{0: 6, 3: 5, 15: 1, 16: 0, 18: 0} {
		k := raw(t, s)
		for _, m := range [][]byte{hello(good), start(wire.Begin{Run: 1, Next: next})} {
			expect.OK(t, k.Send(m, -1, time.Second))
		}
		expect.Must(answer(t, k))(t)
		b, err := answer(t, k)
		if m, _, parsing := wire.Parse[wire.Begun](b); err != nil || parsing != nil || m.Batches != batches {
			t.Errorf("from batch %d: %v, %+v, want %d batches", next, err, m, batches)
		}
		k.Close()
	}
	for _, next := range []uint64{19, 1 << 40, 1<<64 - 1} {
		t.Run(fmt.Sprint(next), func(t *testing.T) {
			k := raw(t, s)
			expect.OK(t, k.Send(hello(good), -1, time.Second))
			refused(t, k, start(wire.Begin{Run: 1, Next: next}), wire.CodeMessage)
			k.Close()
		})
	}
}

// The end of a connection is the end of a connection, however little it said.
func TestAConnectionThatEndsAtOnceIsNoError(t *testing.T) {
	log := &logged{}
	s := serve(t, plainGraph(t, 100), Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	for range 10 {
		expect.OK(t, raw(t, s).Close())
	}
	k := raw(t, s)
	k.CloseRead()
	_, err := answer(t, k)
	expect.That(t, errors.Is(err, io.EOF), "%v", err)
	lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0))
	text := log.String()
	expect.That(t, !strings.Contains(text, "refused"), "the log:\n%s", text)
}
