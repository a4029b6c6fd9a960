//go:build linux

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

// The test binary is also the programs that are killed: KHOP_TEST_ROLE says which.
func playRole(role string) {
	socket := os.Getenv("KHOP_TEST_SOCKET")
	switch role {
	case "serve":
		playServer(socket)
	case "consume":
		playConsumer(socket)
	case "fork":
		playFork(socket)
	case "devices":
		playDevices(socket)
	case "ask 0", "ask 1", "ask 2":
		playAsker(socket, int(role[len(role)-1]-'0'))
	}
}

// playDevices serves from several devices; nil where the build has none.
var playDevices func(socket string)

// fatalf is t.Fatalf for a program that has no t.
type program struct{ testing.TB }

func (program) Helper()           {}
func (program) Fatal(args ...any) { fmt.Println(append([]any{"fatal:"}, args...)...); os.Exit(1) }

// playServer serves until a message ends it or it is killed. It says "ready", and "gone" for each consumer that goes.
func playServer(socket string) {
	g := plainGraph(program{}, 500)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s := expect.Must(New(ctx, g, Options{Path: socket, Loader: usualOn(os.Getenv("KHOP_TEST_DEVICE")),
		StateFile: os.Getenv("KHOP_TEST_STATE"),
		Logger:    slog.New(goneHandler{slog.NewTextHandler(io.Discard, nil)})}))(program{})
	fmt.Println("ready")
	if err := s.Serve(ctx); !errors.Is(err, context.Canceled) {
		program{}.Fatal(err)
	}
	expect.OK(program{}, s.Close())
}

// goneHandler prints "gone" where the server logs that a consumer went.
type goneHandler struct{ slog.Handler }

func (goneHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "has gone") {
		fmt.Println("gone")
	}
	return nil
}

// playConsumer prints each batch that it gets, epoch after epoch, and at last the error that ended it. That it prints a
// batch means that it has acknowledged the one before.
func playConsumer(socket string) {
	device := os.Getenv("KHOP_TEST_DEVICE")
	c := expect.Must(consumer.Dial(context.Background(), socket, consumer.Options{Device: device}))(program{})
	fmt.Println("connected")
	for {
		for b, err := range c.GoOn(context.Background()) {
			if err != nil {
				fmt.Println("error:", err)
				return
			}
			fmt.Println("got", lineOf(b))
			if a := misplaced(b, device != ""); a != "" {
				program{}.Fatal("array", a, "is where it should not be")
			}
		}
	}
}

// playFork connects, and lets a child have the connection too.
func playFork(socket string) {
	c := expect.Must(consumer.Dial(context.Background(), socket, consumer.Options{}))(program{})
	child := exec.Command("sleep", "600")
	for fd := 3; fd < 100; fd++ { // the consumer's socket is the only one of this process
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil &&
			kind == unix.SOCK_SEQPACKET {
			child.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "socket")}
		}
	}
	expect.OK(program{}, child.Start())
	fmt.Println("child", child.Process.Pid)
	for range c.Epoch(context.Background(), 0) {
		select {} // holds a batch for ever
	}
}

// player is one of the programs, under way.
type player struct {
	*exec.Cmd
	lines chan string // what it prints, then closed
}

// kill kills the process, and returns when it did.
func (p *player) kill(t testing.TB) time.Time {
	t.Helper()
	expect.OK(t, p.Process.Kill())
	return time.Now()
}

func play(t testing.TB, role, socket, state string) *player {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KHOP_TEST_ROLE="+role, "KHOP_TEST_SOCKET="+socket, "KHOP_TEST_STATE="+state,
		"GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	p := &player{cmd, make(chan string, 1<<16)}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.Process.Kill()
		p.rest()
		_ = p.Wait()
	})
	return p
}

func (p *player) read(out io.Reader) {
	defer close(p.lines)
	r := bufio.NewScanner(out)
	for r.Scan() {
		p.lines <- r.Text()
	}
}

// rest returns what is still to come.
func (p *player) rest() (all []string) {
	for l := range p.lines {
		all = append(all, l)
	}
	return all
}

// wait returns the next line that begins so; others are handed to see.
func (p *player) wait(t testing.TB, prefix string, see func(string)) string {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case l, ok := <-p.lines:
			expect.Ensure(t, ok, "the program ended before it said %q", prefix)
			if strings.HasPrefix(l, prefix) {
				return l
			}
			if see != nil {
				see(l)
			}
		case <-late:
			t.Fatalf("nothing that begins with %q within %v", prefix, patience)
		}
	}
}

// journal checks that batches come in order, without loss or repetition.
type journal struct {
	t    *testing.T
	src  loader.Source
	want map[uint64][]string // by epoch
	last int                 // place of the last batch that came, over all epochs; -1
	from bool                // the next is the first of a consumer: it may repeat one that was not acknowledged
	got  int
}

func (j *journal) see(l string) {
	l, ok := strings.CutPrefix(l, "got ")
	if !ok {
		expect.That(j.t, !strings.HasPrefix(l, "fatal"), "%v", l)
		return
	}
	j.t.Helper()
	f := strings.Fields(l)
	epoch, _ := strconv.ParseUint(f[0], 10, 64)
	number, _ := strconv.Atoi(f[1])
	if j.want[epoch] == nil {
		j.want[epoch] = want(j.t, j.src, usual(), epoch)
	}
	expect.That(j.t, number < len(j.want[epoch]) && j.want[epoch][number] == l, "batch %q is wrong", l)
	at := int(epoch)*len(j.want[epoch]) + number
	if at != j.last+1 && !(j.from && at == j.last) {
		j.t.Errorf("batch %d of epoch %d came after place %d (%d an epoch), first of a consumer: %t", number, epoch,
			j.last, len(j.want[epoch]), j.from)
	}
	j.last, j.from = at, false
	j.got++
}

// kills is how many processes to kill in all.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		return n
	}
	if testing.Short() {
		return 10
	}
	return 30
}

// letRun lets a consumer take some batches, and a little more.
func letRun(t *testing.T, r *rand.Rand, c *player, j *journal) {
	t.Helper()
	c.wait(t, "connected", j.see)
	for range r.IntN(12) {
		j.see(c.wait(t, "got", j.see))
	}
	<-time.After(time.Duration(r.IntN(3000)) * time.Microsecond) // a random moment
}

func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, d := range []string{"/dev/shm", dir} {
		list := expect.Must(os.ReadDir(d))(t)
		for _, e := range list {
			if d == "/dev/shm" && !strings.Contains(e.Name(), "khop-feed") { // somebody else's
				continue
			}
			names = append(names, filepath.Join(d, e.Name()))
		}
	}
	return names
}

// noticedSoon checks that most deaths are noticed long before anybody stops waiting, on a machine that is busy, too.
func noticedSoon(t *testing.T, noticed []time.Duration) {
	t.Helper()
	slices.Sort(noticed)
	half := noticed[len(noticed)/2]
	t.Logf("half of the deaths are noticed after %v", half)
	expect.That(t, half <= patience/4, "deaths are noticed after %v", noticed)
}

func TestKilledConsumersAreNoticedAndOthersGoOnWhereTheyWere(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Dir(filepath.Dir(socketPath(t)))
	before := left(t, dir)
	socket := filepath.Join(dir, "feed", "socket")
	server := play(t, "serve", socket, "")
	server.wait(t, "ready", nil)
	j := &journal{t: t, src: plainGraph(t, 500), want: map[uint64][]string{}, last: -1}
	var noticed []time.Duration
	for range (kills() + 1) / 2 {
		c := play(t, "consume", socket, "")
		j.from = true
		letRun(t, r, c, j)
		killed := c.kill(t)
		server.wait(t, "gone", nil)
		noticed = append(noticed, time.Since(killed))
		for _, l := range c.rest() {
			j.see(l)
		}
		_ = c.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	noticedSoon(t, noticed)
	expect.OK(t, server.Process.Signal(syscall.SIGTERM))
	rest := server.rest()
	expect.That(t, len(rest) <= 0, "the server said %q", rest)
	expect.OK(t, server.Wait())
	after := left(t, dir)
	expect.That(t, slices.Equal(before, after), "left: %q, before %q", after, before)
	t.Logf("%d batches came", j.got)
}

func TestKilledServersAreNoticedAndOthersGoOnWhereTheyWere(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Dir(filepath.Dir(socketPath(t)))
	before := left(t, dir)
	socket, state := filepath.Join(dir, "feed", "socket"), filepath.Join(dir, "state.json")
	j := &journal{t: t, src: plainGraph(t, 500), want: map[uint64][]string{}, last: -1}
	var noticed []time.Duration
	for range kills() / 2 {
		server := play(t, "serve", socket, state)
		server.wait(t, "ready", nil)
		c := play(t, "consume", socket, "")
		j.from = true
		letRun(t, r, c, j)
		killed := server.kill(t)
		l := c.wait(t, "error:", j.see)
		expect.That(t, strings.Contains(l, shm.ErrGone.Error()), "the consumer said %q", l)
		noticed = append(noticed, time.Since(killed))
		c.rest()
		_, _ = c.Wait(), server.Wait()
		server.rest()
		if t.Failed() {
			t.FailNow()
		}
	}
	noticedSoon(t, noticed)
	if err := os.Remove(socket); err != nil { // of a server that was killed
		t.Error(err)
	}
	expect.OK(t, os.Remove(filepath.Dir(socket)))
	expect.OK(t, os.Remove(state))
	wholefile.Clear(state) // the next server would have removed it
	after := left(t, dir)
	expect.That(t, slices.Equal(before, after), "left: %q, before %q", after, before)
	t.Logf("%d batches came", j.got)
}

func TestAConsumerThatDiesIsNoticedThoughItsChildHasTheSocket(t *testing.T) {
	socket := socketPath(t)
	server := play(t, "serve", socket, "")
	server.wait(t, "ready", nil)
	var noticed []time.Duration
	for range 3 {
		c := play(t, "fork", socket, "")
		child := expect.Must(strconv.Atoi(strings.TrimPrefix(c.wait(t, "child", nil), "child ")))(t)
		defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
		killed := c.kill(t)
		server.wait(t, "gone", nil)
		noticed = append(noticed, time.Since(killed))
		expect.Is(t, syscall.Kill(child, 0), nil, "the child is not there any more, so this shows nothing")
	}
	noticedSoon(t, noticed)
	next := play(t, "consume", socket, "")
	next.wait(t, "got 0 0", nil)
}
