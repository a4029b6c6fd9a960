//go:build linux

package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// scripted is a link that answers as a test says.
type scripted struct {
	answer func(text string, fd int, most time.Duration) error // to Send; nil takes all

	mu     sync.Mutex // guards the following
	sent   []string   // with their descriptors
	closed int        // calls of CloseRead
	gone   bool       // Ended
}

func (s *scripted) Send(b []byte, fd int, most time.Duration) error {
	if s.answer != nil {
		if err := s.answer(string(b), fd, most); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, fmt.Sprintf("%s %d", b, fd))
	return nil
}

func (s *scripted) Receive(context.Context, time.Time, []byte) (n, fd int, err error) {
	return 0, -1, io.EOF
}
func (s *scripted) Peer() (uid uint32, pid int, err error) { return 0, 0, nil }
func (s *scripted) Close() error                           { return nil }

func (s *scripted) AwaitEnd(ctx context.Context) error { return ctx.Err() }

func (s *scripted) CloseRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *scripted) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// state returns what was sent, and how often reading was ended.
func (s *scripted) state() (sent string, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, ", "), s.closed
}

// What there is no room for is kept as it was, and goes in order; waiting ends when all of it went.
func TestMessagesForWhichThereIsNoRoomGoLaterInOrder(t *testing.T) {
	release := make(chan struct{})
	link := &scripted{answer: func(_ string, _ int, most time.Duration) error {
		if most == 0 {
			return os.ErrDeadlineExceeded
		}
		expect.That(t, most == math.MaxInt64, "a message that is kept waits for %v", most)
		<-release
		return nil
	}}
	o := outbox{socket: link}
	o.wait(0) // nothing is kept
	b := make([]byte, 1)
	for i := range 5 {
		b[0] = byte('a' + i)
		expect.OK(t, o.post(b, i-1))
	}
	o.wait(time.Nanosecond) // ends
	sent, _ := link.state()
	expect.That(t, sent == "", "%s is sent already", sent)
	close(release)
	o.wait(0)
	if sent, closed := link.state(); sent != "a -1, b 0, c 1, d 2, e 3" || closed != 0 {
		t.Errorf("sent %q, closed %d times", sent, closed)
	}
	link.answer = nil // nobody sends any more
	expect.OK(t, o.post([]byte("f"), 7))
	if sent, _ := link.state(); !strings.HasSuffix(sent, "e 3, f 7") || o.kept != nil || o.empty != nil {
		t.Errorf("sent %q, kept %v", sent, o.kept)
	}
}

// A message that cannot be sent, now or later, ends the connection and lets go who waits.
func TestAMessageThatCannotBeSentEndsTheConnection(t *testing.T) {
	link := &scripted{answer: func(string, int, time.Duration) error { return errBroken }}
	o := outbox{socket: link}
	expect.Is(t, o.post([]byte("a"), -1), errBroken, "at once")
	_, closed := link.state()
	expect.That(t, closed == 1 && o.kept == nil && o.empty == nil, "closed %d times, %v is kept", closed, o.kept)
	link = &scripted{answer: func(text string, _ int, most time.Duration) error {
		switch {
		case most == 0:
			return os.ErrDeadlineExceeded
		case text == "b":
			return errBroken
		}
		return nil
	}}
	o = outbox{socket: link}
	o.mu.Lock() // the sender begins when all is kept
	o.empty = make(chan struct{})
	for _, text := range []string{"a", "b", "c"} {
		o.kept = append(o.kept, letter{[]byte(text), -1})
	}
	o.mu.Unlock()
	o.deliver()
	o.wait(0)
	if sent, closed := link.state(); sent != "a -1" || closed != 1 || o.kept != nil || o.empty != nil {
		t.Errorf("sent %q, closed %d times, %v is kept", sent, closed, o.kept)
	}
	o.close()
	if _, closed := link.state(); closed != 2 {
		t.Errorf("after close reading was ended %d times", closed)
	}
}

// ERROR names the kind of what went wrong, and has as much of its text as may be, in whole characters.
func TestERRORSaysWhatWentWrong(t *testing.T) {
	for _, c := range []struct {
		err  error
		code shm.Code
		text string
	}{
		{errBroken, wire.CodeLoad, errBroken.Error()},
		{fmt.Errorf("here: %w", refuse(wire.CodeRank, "rank %d", 7)), wire.CodeRank, "here: rank 7"},
		{fmt.Errorf("%w: 5 bytes", shm.ErrNoRoom), wire.CodeMemory, shm.ErrNoRoom.Error() + ": 5 bytes"},
		{fmt.Errorf("%w: odd", wire.ErrMessage), wire.CodeMessage, "bad message: odd"},
		{errors.New(strings.Repeat("x", 4096)), wire.CodeLoad, strings.Repeat("x", 4096)},
		{errors.New(strings.Repeat("x", 4097)), wire.CodeLoad, strings.Repeat("x", 4096)},
		{errors.New("x" + strings.Repeat("é", 3000)), wire.CodeLoad, "x" + strings.Repeat("é", 2047)},
	} {
		var got []byte
		link := &scripted{answer: func(text string, fd int, most time.Duration) error {
			got = []byte(text)
			expect.That(t, fd == -1 && most == 0, "ERROR with descriptor %d within %v", fd, most)
			return nil
		}}
		(&peer{outbox: outbox{socket: link}}).complain(9, c.err)
		m, text, err := wire.Parse[wire.Text](got)
		if err != nil || kindOf(got) != wire.KindError || m.First != 9 || shm.Code(m.Second) != c.code ||
			string(text) != c.text || !utf8.Valid(text) {
			t.Errorf("%.40v: ERROR %+v %.80q, %v", c.err, m, text, err)
		}
	}
}

func TestAnAnswerFitsAMessage(t *testing.T) {
	for more := range 2 {
		link := &scripted{}
		err := (&peer{outbox: outbox{socket: link}}).send(make([]byte, wire.MaxMessage+more))
		var no *refusal
		if refused := errors.As(err, &no); refused != (more > 0) || refused != (len(link.sent) == 0) ||
			refused && (no.code != wire.CodeMessage || err.Error() != "bad message: an answer of 65537 bytes") {
			t.Errorf("%d bytes more than there may be: %v", more, err)
		}
	}
}

// A mailbox takes messages until its memory is full, to the byte, and says that it has no room, or no reader.
func TestAMailboxHasRoomToTheByte(t *testing.T) {
	p, m := new(post), make([]byte, wire.MaxMessage-frame)
	binary.LittleEndian.PutUint16(m, uint16(wire.KindBatch))
	for n := range PostBytes / wire.MaxMessage {
		expect.Ensure(t, p.put(m), "there is no room for message %d", n)
	}
	expect.That(t, !p.put(nil), "there is room for more")
	length, kind := binary.LittleEndian.Uint32(p.data[:]), binary.LittleEndian.Uint32(p.data[4:])
	expect.That(t, length == wire.MaxMessage-frame && kind == uint32(wire.KindBatch), "a frame of %d bytes, of kind %d",
		length, kind)
	room := make([]byte, wire.MaxMessage)
	n := p.take(room)
	expect.That(t, n == wire.MaxMessage-frame && p.put(m) && !p.put(nil), "%d bytes came, and room for as many", n)
	small := new(post)
	if !small.put([]byte{7}) || binary.LittleEndian.Uint64(small.data[:]) != 1 {
		t.Errorf("a message of a byte has the frame %x", small.data[:frame])
	}
}

func TestAMailboxThatIsFullSaysSo(t *testing.T) {
	hear, ring := expect.Must2(os.Pipe())(t)
	defer ring.Close()
	rung := 0
	b := &mailbox{Within: Within{new(Mail), func() { rung++ }, hear}}
	m := make([]byte, wire.MaxMessage-frame)
	for range PostBytes / wire.MaxMessage {
		expect.OK(t, b.Send(m, -1, 0))
	}
	expect.That(t, rung == 0, "who is awake is woken")
	for _, most := range []time.Duration{0, time.Millisecond} {
		expect.Is(t, b.Send(m, -1, most), os.ErrDeadlineExceeded, "in %v", most)
	}
	time.AfterFunc(time.Millisecond, func() { b.Mail.Down.take(make([]byte, wire.MaxMessage)) })
	expect.Is(t, b.Send(m, -1, patience), nil, "after there was room")
	uid, pid, err := b.Peer()
	expect.That(t, uid == uint32(os.Geteuid()) && pid == 0 && err == nil, "user %d, process %d, %v", uid, pid, err)
	b.CloseRead()
	if err := b.Send(m, -1, patience); !errors.Is(err, io.ErrClosedPipe) || !b.Ended() {
		t.Errorf("to who is gone: %v", err)
	}
	b.Mail.Down.sleeps.Store(1)
	if err := b.Close(); err != nil || rung != 1 || b.Mail.Down.ended.Load() != 1 {
		t.Errorf("%v, rung %d times, ended %d", err, rung, b.Mail.Down.ended.Load())
	}
}

// Who hears nothing more says so: the consumer has ended, the server ends, or the bell is broken.
func TestAMailboxHearsUntilItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(b *mailbox, cancel func())
		want error
	}{
		"the consumer ends": {func(b *mailbox, _ func()) { b.Mail.Up.ended.Store(1) }, io.EOF},
		"the server ends":   {func(b *mailbox, _ func()) { b.CloseRead() }, io.EOF},
		"the context ends":  {func(_ *mailbox, cancel func()) { cancel() }, io.EOF},
		"no bell":           {func(b *mailbox, _ func()) { _ = b.Bell.Close() }, os.ErrClosed},
	} {
		hear, ring := expect.Must2(os.Pipe())(t)
		b := &mailbox{Within: Within{new(Mail), func() {}, hear}}
		ctx, cancel := context.WithCancel(t.Context())
		b.Mail.Up.put([]byte("first"))
		room := make([]byte, wire.MaxMessage)
		n, fd, err := b.Receive(ctx, time.Time{}, room)
		expect.That(t, string(room[:n]) == "first" && fd == -1 && err == nil, "%s: %q, %d, %v", name, room[:n], fd, err)
		c.end(b, cancel)
		if n, fd, err := b.Receive(ctx, time.Time{}, room); n != 0 || fd != -1 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d bytes, %d, %v", name, n, fd, err)
		}
		cancel()
		_, _ = b.Close(), ring.Close()
	}
}
