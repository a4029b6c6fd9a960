package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
)

// Epoch goes over the batches of epoch n. There is at most one error, at the end and without a batch: context.Cause of
// ctx, shm.ErrGone if the server died, shm.ErrEnded, shm.ErrTimeout, shm.ErrHeld, shm.ErrBusy, shm.ErrClosed, or *Error
// with what the server reports. Breaking out of the loop acknowledges the batches before the last one yielded, not that
// one.
func (c *Consumer) Epoch(ctx context.Context, n uint64) iter.Seq2[*Batch, error] {
	return c.batches(ctx, wire.Begin{Mode: wire.BeginAt, Epoch: n}, nil)
}

// GoOn continues at the rank's place, to the end of that epoch: with the first batch that was not acknowledged, or
// after a complete epoch with the next one.
func (c *Consumer) GoOn(ctx context.Context) iter.Seq2[*Batch, error] {
	return c.batches(ctx, wire.Begin{Mode: wire.BeginGoOn}, nil)
}

// Resume continues after the batch with State s, to the end of that epoch.
func (c *Consumer) Resume(ctx context.Context, s loader.State) iter.Seq2[*Batch, error] {
	text, err := json.Marshal(s)
	if err != nil {
		return func(yield func(*Batch, error) bool) { yield(nil, err) }
	}
	return c.batches(ctx, wire.Begin{Mode: wire.BeginState, JSON: uint32(len(text))}, text)
}

func (c *Consumer) batches(ctx context.Context, m wire.Begin, state []byte) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := c.enter(); err != nil {
			yield(nil, err)
			return
		}
		defer c.exit()
		if err := c.start(ctx, m, state); err != nil {
			yield(nil, err)
			return
		}
		for {
			b, err := c.await(ctx)
			if err != nil {
				c.abandon()
				yield(nil, err)
				return
			}
			if b == nil {
				return
			}
			if !c.lend(b, yield) {
				c.abandon()
				return
			}
			c.done++
		}
	}
}

// lend gives a batch to the loop body.
func (c *Consumer) lend(b *Batch, yield func(*Batch, error) bool) (more bool) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if b.inBody = false; !b.kept {
			c.giveBack(b)
		}
	}()
	return yield(b, nil)
}

// start begins a run.
func (c *Consumer) start(ctx context.Context, m wire.Begin, state []byte) error {
	c.run++
	c.done = 0
	m.Run = c.run
	if err := c.send(wire.Append(nil, wire.KindBegin, m, state)); err != nil {
		return c.lost(ctx, err)
	}
	c.started = true
	end := c.end()
	for {
		b, err := c.receive(ctx, end, wire.KindBegun, wire.KindBatch, wire.KindEnd, wire.KindError)
		if err != nil {
			return c.explain(ctx, err)
		}
		switch k, _ := wire.KindOf(b); k {
		case wire.KindBegun:
			begun, _, err := wire.Parse[wire.Begun](b)
			if err == nil && begun.Run == c.run && m.Mode == wire.BeginAt && begun.Epoch != m.Epoch {
				err = fmt.Errorf("%w: BEGUN of epoch %d, not %d", wire.ErrMessage, begun.Epoch, m.Epoch)
			}
			if err != nil || begun.Run == c.run {
				c.epoch, c.count = begun.Epoch, begun.Batches
				return err
			}
		case wire.KindBatch:
			if err := c.discard(b); err != nil {
				return err
			}
		case wire.KindError:
			if err := c.failure(b); err != nil {
				return err
			}
		}
		if err := c.inTime(end); err != nil {
			return err
		}
	}
}

// lost explains why a message could not be sent: the server may have sent the reason before it ended.
func (c *Consumer) lost(ctx context.Context, err error) error {
	if wire.IsBroken(err) {
		_, err = c.receive(ctx, c.end(), wire.KindBye)
		return err
	}
	return c.broken(err)
}

// explain asks the server why no batch came in time, and adds its answer to the error.
func (c *Consumer) explain(ctx context.Context, err error) error {
	if !errors.Is(err, shm.ErrTimeout) {
		return err
	}
	c.mu.Lock()
	held := len(c.held)
	c.mu.Unlock()
	if held >= c.info.Hold {
		return fmt.Errorf("%w: all %d, for %v: release some, or start the server with a larger hold", shm.ErrHeld,
			held, c.opt.Timeout)
	}
	defer c.hurry()()
	var s shm.RankStats
	if asking := c.ask(ctx, wire.AskStatistics, &s); asking != nil {
		return fmt.Errorf("%w: within %v; nor does the server answer: %w", shm.ErrTimeout, c.opt.Timeout, asking)
	}
	text := ""
	for _, p := range s.Consumers {
		text += fmt.Sprintf("; process %d holds %d for %.0f s", p.PID, p.Held, p.OldestHeld)
	}
	return fmt.Errorf("%w: within %v; the server waits for: %q%s", shm.ErrTimeout, c.opt.Timeout, s.Waiting, text)
}

// await acknowledges the batches that were yielded and returns the next one; nil at the run's end.
func (c *Consumer) await(ctx context.Context) (*Batch, error) {
	if err := c.acknowledge(); err != nil {
		return nil, c.lost(ctx, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b, err := c.next(ctx, wire.KindBatch, wire.KindEnd, wire.KindError)
	return b, c.explain(ctx, err)
}

// next waits for what the run has next, of some kinds of messages: a batch, its end (nil), or its error. Batches of
// runs that were left are given back.
func (c *Consumer) next(ctx context.Context, kinds ...wire.Kind) (*Batch, error) {
	end := c.end()
	for {
		b, err := c.receive(ctx, end, kinds...)
		if err != nil {
			return nil, err
		}
		switch k, _ := wire.KindOf(b); k {
		case wire.KindBatch:
			m, _, err := wire.Parse[wire.Batch](b)
			if err != nil {
				return nil, err
			}
			if m.Run == c.run {
				return c.open(m)
			}
			if err := c.discard(b); err != nil {
				return nil, err
			}
		case wire.KindEnd:
			m, _, err := wire.Parse[wire.End](b)
			if err != nil {
				return nil, err
			}
			if m.Run == c.run {
				return nil, c.complete(m)
			}
		case wire.KindError:
			if err := c.failure(b); err != nil {
				return nil, err
			}
		}
		if err := c.inTime(end); err != nil {
			return nil, err
		}
	}
}

// complete ends the run; an error unless all of it came.
func (c *Consumer) complete(m wire.End) error {
	c.started = false
	if m.Sent != c.done || m.Sent != c.count || m.Reason != wire.EndComplete {
		return fmt.Errorf("%w: END %d after %d batches, where %d of %d came", wire.ErrMessage, m.Reason, m.Sent, c.done,
			c.count)
	}
	return nil
}

// failure returns the error that ended this run; nil for that of another.
func (c *Consumer) failure(b []byte) error {
	m, text, err := wire.Parse[wire.Text](b)
	if err != nil || m.First != c.run {
		return err
	}
	c.started = false
	return &shm.Error{Code: shm.Code(m.Second), Text: string(text)}
}

// acknowledge tells the server which batches are done and which slots come back.
func (c *Consumer) acknowledge() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

// flush acknowledges the batches that are done, and returns all slots. mu is held.
func (c *Consumer) flush() error {
	if err := c.sendNext(c.run, c.done); err != nil {
		return err
	}
	return c.flushSlots()
}

// sendNext sends NEXT with as many slots as it has room for; they stay to be returned where that fails. mu is held.
func (c *Consumer) sendNext(run uint32, done uint64) error {
	n := min(len(c.back), wire.MaxReturned)
	c.note = wire.AppendNext(c.note[:0], run, done, c.back[:n])
	if err := c.socket.Send(c.note, -1, c.opt.Timeout); err != nil {
		return err
	}
	c.back = append(c.back[:0], c.back[n:]...)
	return nil
}

// discard returns a batch of a run that was left.
func (c *Consumer) discard(b []byte) error {
	m, _, err := wire.Parse[wire.Batch](b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[m.Slot] != nil || m.Slot >= uint32(c.info.Slots) || slices.Contains(c.back, m.Slot) {
		return errSlot(m)
	}
	c.back = append(c.back, m.Slot)
	return nil
}

// answerTimeout is how long a server may take to say what it waits for, and to end a run that was left. A variable for
// tests only.
var answerTimeout = 5 * time.Second

// hurry has receive wait no longer than for an answer, until it is undone.
func (c *Consumer) hurry() (undo func()) {
	c.wait = answerTimeout
	return func() { c.wait = 0 }
}

// abandon leaves a run before its end, and returns the batches that were announced and not read: others may wait for
// them.
func (c *Consumer) abandon() {
	if !c.started {
		return
	}
	c.started = false
	if !c.leave() {
		return
	}
	defer c.hurry()()
	end := c.end()
	for ended := false; !ended; {
		b, err := c.receive(context.Background(), end, wire.KindBatch, wire.KindEnd, wire.KindError)
		if err != nil || c.inTime(end) != nil {
			return // the next run will say so
		}
		switch k, _ := wire.KindOf(b); k {
		case wire.KindBatch:
			err = c.discard(b)
		case wire.KindEnd:
			var m wire.End
			m, _, err = wire.Parse[wire.End](b)
			ended = m.Run == c.run
		case wire.KindError:
			var m wire.Text
			m, _, err = wire.Parse[wire.Text](b)
			ended = m.First == c.run
		}
		if err != nil {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		_ = c.flushSlots()
	}
}

// leave sends STOP; false where that cannot be.
func (c *Consumer) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.flush() == nil && c.send(pair(wire.KindStop, c.run, 0)) == nil
}
