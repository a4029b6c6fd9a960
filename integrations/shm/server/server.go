package server

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/warned"
	"github.com/khop-gnn/khop/loader"
)

// Server serves the batches of one dataset to consumers. Make it with New, run Serve once, and Close it. All
// methods but Serve may be called at any time by any goroutine.
type Server struct {
	opt    Options
	name   string // of the dataset
	why    string // batches are made where they are
	id     [16]byte
	within bool             // no socket: the consumer is in this process (Inside)
	uid    uint32           // whose consumers are welcome
	placed []*loader.Placed // one a device; ranks take turns
	ranks  []*rank
	states *stateFile // nil for none

	listener *net.UnixListener
	remove   func() error // undoes what listening made beside the socket

	refused, unreached sparing // what the log hears of them
	noted              noted

	mu        sync.Mutex // guards the following
	peers     map[*peer]struct{}
	strangers []*peer // those of peers that have not said HELLO, the oldest first
	consumers int     // those of peers that were admitted
	closed    bool
	served    chan struct{} // closed when Serve has returned; nil before it is called
	finish    context.CancelCauseFunc
	finished  int // ranks that have acknowledged the last epoch

	handlers  sync.WaitGroup // of connections
	closeOnce sync.Once
	closeErr  error
}

// New makes the loaders and their rings, and listens; consumers that connect wait for Serve. src must stay open
// until Close. Errors: those of loader.NewContext, shm.ErrOptions, shm.ErrRunning, shm.ErrNoRoom, and errors of path or
// state file.
func New(ctx context.Context, src loader.Source, opt Options) (*Server, error) {
	return newServer(ctx, src, opt, false)
}

func newServer(ctx context.Context, src loader.Source, opt Options, within bool) (*Server, error) {
	if err := opt.ensureDefaults().validate(); err != nil {
		return nil, err
	}
	s := &Server{opt: opt, within: within, id: src.ID(), uid: uint32(os.Geteuid()), peers: map[*peer]struct{}{}}
	s.name = hex.EncodeToString(s.id[:])
	if p, ok := src.(interface{ Path() string }); ok {
		s.name = paths.Text(p.Path())
	}
	if err := s.open(ctx, src); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context, src loader.Source) (err error) {
	if err := s.checkAnswers(); err != nil {
		return err
	}
	if !s.within {
		if s.listener, s.remove, err = wire.Listen(s.opt.Path); err != nil {
			return err
		}
	}
	s.opt.Logger = warned.To(s.noted.add, s.opt.Logger.Handler())
	opt := s.opt.Loader
	if log := opt.Hooks.Logger; log != nil {
		opt.Hooks.Logger = warned.To(s.noted.add, log.Handler())
	}
	opt.Device.Name, s.why = loader.ChooseDevice(opt)
	s.opt.Loader.Device.Name = opt.Device.Name
	devices := strings.Split(opt.Device.Name, ",")
	opt.WorldSize, opt.Device.Name = s.opt.WorldSize, devices[0]
	if opt.Hooks.Soon = s.within; s.opt.Hold == 0 {
		if s.opt.Hold, err = defaultHold(ctx, src, opt); err != nil {
			return err
		}
	}
	opt.Tuning.Prefetch += s.opt.Hold
	ranks := s.opt.Ranks
	if s.within { // the one of its consumer has all memory and all workers
		ranks, devices = []int{opt.Rank}, devices[:1]
	}
	opt.Workers, opt.Device.Name = max(1, opt.Workers/len(ranks)), strings.Join(devices, ",")
	if s.placed, err = loader.PlaceAll(ctx, src, opt, len(ranks)); err != nil {
		return err
	}
	for i, n := range ranks {
		opt.Rank, opt.Device.Name = n, devices[i%len(devices)]
		r, err := newRank(ctx, s, s.placed[i%len(devices)], opt)
		if err != nil {
			return err
		}
		s.ranks = append(s.ranks, r)
	}
	if s.opt.StateFile != "" {
		s.states, err = openStates(s.opt.StateFile, s.ranks, src)
	}
	return err
}

// Serve serves consumers until ctx ends, or Close is called, or with Options.Epochs until every rank has acknowledged
// the last epoch. It returns context.Cause, shm.ErrClosed or nil. When it returns, all consumers have a message of the
// end, and none of its goroutines runs.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	if s.closed || s.served != nil {
		s.mu.Unlock()
		return shm.ErrClosed
	}
	s.finish, s.served = cancel, make(chan struct{})
	s.mu.Unlock()
	defer close(s.served)
	var loops sync.WaitGroup
	for _, r := range s.ranks {
		loops.Add(1)
		go func() {
			defer loops.Done()
			r.loop(ctx)
		}()
	}
	err := s.accept(ctx)
	cancel(err)
	loops.Wait()
	reason := uint32(wire.ByeInterrupted)
	if errors.Is(err, errAllEpochs) {
		reason, err = wire.ByeAllEpochs, nil
	}
	s.dismiss(reason)
	s.handlers.Wait()
	s.refused.rest(s.opt.Logger, "consumers were refused")
	s.unreached.rest(s.opt.Logger, "consumers could not connect")
	return err
}

// errAllEpochs ends Serve when there is nothing left to serve.
var errAllEpochs = errors.New("all epochs were loaded")

// accept hands each connection to a goroutine of its own, until ctx ends or the listener is closed.
func (s *Server) accept(ctx context.Context) error {
	if s.within {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return context.Cause(ctx)
		case errors.Is(err, net.ErrClosed):
			return shm.ErrClosed
		case err != nil:
			s.unreachable(ctx, err)
			continue
		}
		k, err := wire.NewSocket(c)
		if err != nil {
			s.unreachable(ctx, err)
			continue
		}
		s.receive(ctx, k)
	}
}

// receive answers who is at the other end of a connection, in a goroutine of its own.
func (s *Server) receive(ctx context.Context, k link) {
	p := &peer{server: s, socket: k, outbox: outbox{socket: k}, since: time.Now()}
	s.meet(p)
	s.handlers.Go(func() {
		p.serve(ctx)
		s.part(p)
	})
}

// mostStrangers is how many connections may not have said HELLO.
const mostStrangers = 64

// meet notes a connection. Where too many say nothing the oldest has to go: they take no place from consumers, who say
// HELLO at once.
func (s *Server) meet(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = struct{}{}
	s.strangers = append(s.strangers, p)
	if len(s.strangers) > mostStrangers {
		s.strangers[0].socket.CloseRead()
		s.strangers = slices.Delete(s.strangers, 0, 1)
	}
}

// admit makes a consumer of a connection that has said HELLO; false where there are as many as the options allow.
func (s *Server) admit(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers = slices.DeleteFunc(s.strangers, func(q *peer) bool { return q == p })
	if p.admit = s.consumers < s.opt.MaxConsumers; p.admit {
		s.consumers++
	}
	return p.admit
}

// part forgets a connection.
func (s *Server) part(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	s.strangers = slices.DeleteFunc(s.strangers, func(q *peer) bool { return q == p })
	if p.admit {
		s.consumers--
	}
}

// wasTurnedOut reports whether a connection that had not said HELLO had to go for others.
func (s *Server) wasTurnedOut(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.Contains(s.strangers, p)
}

// unreachable says that a consumer could not connect, where no descriptors are left for instance, and lets some time
// pass.
func (s *Server) unreachable(ctx context.Context, err error) {
	s.unreached.warn(s.opt.Logger, "a consumer could not connect", "error", err)
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// dismissTimeout is how long a consumer has to take a good-bye.
const dismissTimeout = 100 * time.Millisecond

// dismiss says good-bye to all consumers and ends their connections, once what they have sent so far is dealt with.
func (s *Server) dismiss(reason uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bye := wire.Append(nil, wire.KindBye, wire.Pair{First: reason}, nil)
	for p := range s.peers {
		_ = p.outbox.post(bye, -1)
	}
	end := time.Now().Add(dismissTimeout)
	for p := range s.peers {
		p.outbox.wait(max(time.Until(end), 1))
		p.socket.CloseRead()
	}
}

// rankFinished counts ranks that have acknowledged the last epoch.
func (s *Server) rankFinished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished++; s.finished == len(s.ranks) && s.finish != nil {
		s.finish(errAllEpochs)
	}
}

// Close ends Serve, waits for it, and frees the loaders and rings; consumers keep what they have mapped. Later calls
// return the first result.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		served := s.served
		if s.finish != nil {
			s.finish(shm.ErrClosed)
		}
		s.mu.Unlock()
		var errs []error
		if s.listener != nil {
			errs = append(errs, s.listener.Close()) // this removes the socket
		}
		if served != nil {
			<-served
		}
		for _, r := range s.ranks {
			errs = append(errs, r.close())
		}
		for _, p := range s.placed {
			errs = append(errs, p.Close())
		}
		if s.remove != nil {
			errs = append(errs, s.remove())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

// Options returns the options that were given, with defaults; of the loader those of rank 0.
func (s *Server) Options() Options {
	o := s.opt
	o.Loader, o.IndexDType = s.ranks[0].loader.Options(), s.ranks[0].index
	return o
}

// Answer returns what the loader of rank 0 has made of its options.
func (s *Server) Answer() loader.Answer { return s.ranks[0].loader.Answer() }

// DeviceReason says why Answer().Device makes batches.
func (s *Server) DeviceReason() string { return s.why }

// NumBatches returns the batches of an epoch that rank 0 yields.
func (s *Server) NumBatches() uint64 { return s.ranks[0].loader.NumBatches() }

// noted is what loaders and the server have warned of, for consumers to hear.
type noted struct {
	mu    sync.Mutex
	texts []string
}

// mostNotes is how many warnings a consumer hears, each once.
const mostNotes = 16

func (n *noted) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.texts) < mostNotes && !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

func (n *noted) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.texts)
}

// describe is the JSON of WELCOME.
type describe struct {
	Version   string       `json:"version,omitempty"`
	PID       int          `json:"pid"`
	Dataset   string       `json:"dataset"`
	DatasetID string       `json:"dataset_id"`
	Sampler   string       `json:"sampler"`
	Layers    int          `json:"layers"`
	Frontier  string       `json:"frontier,omitempty"`
	Seeds     string       `json:"seeds"`
	NumSeeds  int64        `json:"num_seeds"`
	BatchSize int          `json:"batch_size"`
	Shuffle   bool         `json:"shuffle"`
	DropLast  bool         `json:"drop_last"`
	Remainder string       `json:"remainder"`
	Batches   uint64       `json:"batches"`
	Epochs    uint64       `json:"epochs"`
	Readers   int          `json:"readers"`
	Device    string       `json:"device"`
	Why       string       `json:"device_reason,omitempty"`
	UUID      string       `json:"device_uuid,omitempty"`
	MPS       bool         `json:"mps,omitempty"`
	State     loader.State `json:"state"`
	Notes     []string     `json:"notes,omitempty"`

	NodeTypes []nodeType `json:"node_types,omitempty"` // of a server that answers requests
}

type nodeType struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}
