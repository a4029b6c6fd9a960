package wire

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// socketPair returns two ends of a connection.
func socketPair(t testing.TB) (a, b *Socket) {
	t.Helper()
	pair := expect.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	a = expect.Must(OwnSocket(pair[0]))(t)
	b = expect.Must(OwnSocket(pair[1]))(t)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

// errTest is the cause of a context that a test ends.
var errTest = errors.New("enough")

// patience is how long a test waits for what comes at once, unless the machine is busy with something else.
const patience = 2 * time.Minute

// inTime is the end of a wait that should be over long before.
func inTime() time.Time { return time.Now().Add(patience) }

// soon calls f after a while, likely when somebody waits, and ends the test no sooner than f has returned.
func soon(t *testing.T, after time.Duration, f func()) {
	done := make(chan struct{})
	time.AfterFunc(after, func() {
		defer close(done)
		f()
	})
	t.Cleanup(func() { <-done })
}

// fill sends until there is no room, and returns how many messages that took.
func fill(t testing.TB, s *Socket) (n int) {
	t.Helper()
	for ; n < 1<<20; n++ {
		err := s.Send([]byte{byte(n)}, -1, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return n
		}
		expect.OK(t, err)
	}
	t.Fatal("there is always room")
	return 0
}

func TestCancellingEndsAWaitAndNotTheConnection(t *testing.T) {
	a, b := socketPair(t)
	room := make([]byte, 64)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		soon(t, 10*time.Millisecond, func() { cancel(errTest) })
		_, _, err := a.Receive(ctx, inTime(), room)
		expect.Ensure(t, errors.Is(err, errTest), "%v, want the context's cause", err)
		if _, _, err := a.Receive(ctx, inTime(), room); !errors.Is(err, errTest) {
			t.Fatalf("with a context that has ended: %v, want its cause", err)
		}
		soon(t, 10*time.Millisecond, func() { _ = b.Send([]byte("next"), -1, time.Second) })
		if n, _, err := a.Receive(t.Context(), inTime(), room); err != nil || string(room[:n]) != "next" {
			t.Fatalf("afterwards: %q, %v", room[:n], err)
		}
	}
}

// waitBothWays has a socket wait for room and for a message. What ends the waits comes through the channel.
func waitBothWays(t *testing.T, a *Socket) <-chan error {
	fill(t, a)
	ended := make(chan error)
	go func() { ended <- a.Send([]byte("more"), -1, patience) }()
	go func() {
		_, _, err := a.Receive(t.Context(), inTime(), make([]byte, 64))
		ended <- err
	}()
	return ended
}

func TestClosingEndsAllWaits(t *testing.T) {
	a, b := socketPair(t)
	ended := waitBothWays(t, a)
	begin := time.Now()
	soon(t, 10*time.Millisecond, func() { _ = a.Close() })
	for range 2 {
		err := <-ended
		expect.That(t, errors.Is(err, net.ErrClosed) || IsBroken(err), "%v, want that it is closed", err)
	}
	d := time.Since(begin)
	expect.That(t, d <= patience/2, "it took %v", d)
	for _, err := range []error{a.Close(), a.Send([]byte("more"), -1, time.Second)} {
		expect.Is(t, err, net.ErrClosed, "afterwards")
	}
	a.CloseRead() // does nothing
	n := 0
	for {
		if _, _, err := b.Receive(t.Context(), inTime(), make([]byte, 64)); err != nil {
			expect.Is(t, err, io.EOF, "at the other end")
			break
		}
		n++
	}
	expect.That(t, n != 0, "what was sent before is lost")
}

func TestTheOtherEndsDeathEndsAllWaits(t *testing.T) {
	a, b := socketPair(t)
	ended := waitBothWays(t, a)
	soon(t, 10*time.Millisecond, func() { _ = b.Close() })
	for range 2 {
		err := <-ended
		expect.That(t, IsBroken(err), "%v, want that the other end is gone", err)
	}
}

func TestWhatADeadEndHasSentStillComes(t *testing.T) {
	a, b := socketPair(t)
	for _, s := range []*Socket{a, b} {
		expect.OK(t, s.Send([]byte("last"), -1, time.Second))
	}
	if err := b.Close(); err != nil { // and leaves a message unread
		t.Fatal(err)
	}
	room := make([]byte, 64)
	n, _, err := a.Receive(t.Context(), inTime(), room)
	expect.That(t, err == nil && string(room[:n]) == "last", "%q, %v", room[:n], err)
	if _, _, err := a.Receive(t.Context(), inTime(), room); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
}

func TestASenderWaitsForRoom(t *testing.T) {
	a, b := socketPair(t)
	n := fill(t, a)
	begin := time.Now()
	if err := a.Send([]byte("more"), -1, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want os.ErrDeadlineExceeded", err)
	}
	d := time.Since(begin)
	expect.That(t, d >= 50*time.Millisecond && d <= patience/2, "it waited for %v", d)
	sent := make(chan error)
	go func() {
		for i := range 3 * n {
			if err := a.Send([]byte{byte(n + i)}, -1, patience); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	room := make([]byte, 64)
	for i := range 4 * n {
		_, _, err := b.Receive(t.Context(), inTime(), room)
		expect.Ensure(t, err == nil && room[0] == byte(i), "message %d is %d, %v", i, room[0], err)
	}
	expect.OK(t, <-sent)
}

func TestASenderWaitsNoLongerThanThisEndReads(t *testing.T) {
	a, b := socketPair(t)
	n := fill(t, a)
	expect.OK(t, b.Send([]byte("before"), -1, time.Second))
	soon(t, 10*time.Millisecond, a.CloseRead)
	begin := time.Now()
	err := a.Send([]byte("more"), -1, patience)
	expect.That(t, IsBroken(err), "%v, want that nobody reads", err)
	d := time.Since(begin)
	expect.That(t, d <= patience/2, "it waited for %v", d)
	room := make([]byte, 64)
	if k, _, err := a.Receive(t.Context(), inTime(), room); err != nil || string(room[:k]) != "before" {
		t.Errorf("what the other end had sent: %q, %v", room[:k], err)
	}
	if _, _, err := a.Receive(t.Context(), inTime(), room); !errors.Is(err, io.EOF) {
		t.Errorf("after that: %v, want io.EOF", err)
	}
	for range n {
		expect.Must2(b.Receive(t.Context(), inTime(), room))(t)
	}
}

func TestAWaitEndsInTimeAndNotBefore(t *testing.T) {
	a, b := socketPair(t)
	room := make([]byte, 64)
	if _, _, err := a.Receive(t.Context(), time.Now().Add(10*time.Millisecond), room); !errors.Is(err,
		os.ErrDeadlineExceeded) {
		t.Errorf("%v, want os.ErrDeadlineExceeded", err)
	}
	for range 3 {
		waited, sent := make(chan struct{}), make(chan error)
		go func() { // the waiting side is woken to look again, for nothing
			more := 20
			for more > 0 {
				<-time.After(time.Millisecond)
				a.wake()
				select {
				case <-waited:
					more--
				default:
				}
			}
			sent <- b.Send([]byte("late"), -1, patience)
		}()
		begin := time.Now()
		_, _, err := a.Receive(t.Context(), begin.Add(50*time.Millisecond), room)
		d := time.Since(begin)
		expect.That(t, errors.Is(err, os.ErrDeadlineExceeded) && d >= 50*time.Millisecond && d <= patience/2,
			"%v after %v, want os.ErrDeadlineExceeded", err, d)
		close(waited)
		if n, _, err := a.Receive(t.Context(), time.Time{}, room); err != nil || string(room[:n]) != "late" {
			t.Errorf("without an end: %q, %v", room[:n], err)
		}
		expect.OK(t, <-sent)
	}
}

func TestNoMessageIsMissedAtAnyPace(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	a, b := socketPair(t)
	const rounds = 3000
	answered := make(chan error)
	go func() {
		room := make([]byte, 64)
		for range rounds {
			n, _, err := b.Receive(context.Background(), inTime(), room)
			if err == nil {
				err = b.Send(room[:n], -1, time.Second)
			}
			if err != nil {
				answered <- err
				return
			}
		}
		answered <- nil
	}()
	room := make([]byte, 64)
	fast, slow := 0, 0
	for i := range rounds {
		if i/100%2 == 1 { // from fast to slow and back
			for end := time.Now().Add(time.Duration(r.IntN(200)) * time.Microsecond); time.Now().Before(end); {
			}
		}
		expect.OK(t, a.Send([]byte{byte(i)}, -1, time.Second))
		if n, _, err := a.Receive(t.Context(), inTime(), room); err != nil || n != 1 || room[0] != byte(i) {
			t.Fatalf("seed %d, message %d: %d, %v", seed, i, room[:n], err)
		}
		if a.watched == unix.EPOLL_CTL_ADD {
			slow++
		} else {
			fast++
		}
	}
	expect.OK(t, <-answered)
	t.Logf("%d without Go's poller, %d with it", fast, slow)
}

func TestOnlyWhoMostlyWaitsShortlyLooksAgain(t *testing.T) {
	for _, c := range []struct {
		rounds, long, short int // numbers of rounds and of waits in each
		want                bool
	}{{0, 0, 0, false}, {1, 0, 1, true}, {1, 1, 2, false}, {1, 1, 3, true}, {100, 1, 1, false}, {100, 1, 4, true},
		{1, 1000, 32, false}, {1, 1000, 33, true}} {
		var h habit
		for range c.rounds {
			for range c.long {
				h.learn(2 * shortWait)
			}
			for range c.short {
				h.learn(shortWait / 2)
			}
		}
		if got := h.isShort(); got != (c.want && runtime.NumCPU() > 1) {
			t.Errorf("after %d times %d long waits and %d short ones: %t", c.rounds, c.long, c.short, got)
		}
	}
}
