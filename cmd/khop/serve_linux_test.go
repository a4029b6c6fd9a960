package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/sampling"
)

// served is a "khop serve" under way.
type served struct {
	*exec.Cmd
	ready  serveReady
	stderr *strings.Builder
}

// socketPath is where a server makes its socket and the folder for it.
func socketPath(t testing.TB) string { return filepath.Join(t.TempDir(), "feed", "socket") }

// startServer runs "khop serve" with a socket in a folder that it makes, until the test's end.
func startServer(t *testing.T, args ...string) *served {
	t.Helper()
	socket := socketPath(t)
	cmd := process(t, program(t), append([]string{"serve", "--socket", socket, "--json"}, args...)...)
	s := &served{Cmd: cmd, stderr: &strings.Builder{}}
	cmd.Stderr = s.stderr
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := json.NewDecoder(out).Decode(&s.ready); err != nil {
		_ = cmd.Wait()
		t.Fatalf("khop serve %v: %v: %v", args, err, s.stderr)
	}
	return s
}

// status waits for the server's end.
func (s *served) status(t *testing.T) int {
	t.Helper()
	err := s.Wait()
	exit := (*exec.ExitError)(nil)
	expect.Ensure(t, err == nil || errors.As(err, &exit), "%v", err)
	return s.ProcessState.ExitCode()
}

func (s *served) connect(t *testing.T, opt consumer.Options) *consumer.Consumer {
	t.Helper()
	opt.Timeout = 2 * time.Minute
	c, err := consumer.Dial(t.Context(), s.ready.Socket, opt)
	expect.Ensure(t, err == nil, "%v; the server says %v", err, s.stderr)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServedBatchesAreThoseOfSample(t *testing.T) {
	dir := t.TempDir()
	typed, rmat := filepath.Join(dir, "typed.khop"), filepath.Join(dir, "rmat.khop")
	must(t, "generate", "typed", typed, "--nodes", "3000", "--edges", "20000", "--features", "6")
	must(t, "generate", "rmat", rmat, "--nodes", "3000", "--edges", "30000", "--features", "5")
	for name, c := range map[string]struct{ data, args string }{
		"one type":         {small(t), "--batch-size 100 --shuffle --seed 5"},
		"several types":    {typed, "--seeds all --batch-size 300 --fanouts 4,3 --shuffle"},
		"skewed, views":    {rmat, "--batch-size 250 --fanouts 5,5 --frontier new --seed 9 --resident"},
		"with replacement": {rmat, "--batch-size 400 --fanouts 5 --replace --drop-last"},
	} {
		t.Run(name, func(t *testing.T) {
			const world = 3
			args := strings.Fields(c.args)
			s := startServer(t, append([]string{c.data, "--world-size", fmt.Sprint(world)}, args...)...)
			for rank := range world {
				con := s.connect(t, consumer.Options{Rank: consumer.RankOf(rank)})
				for epoch := range uint64(2) {
					sample := append([]string{"sample", c.data, "--digest", "--epoch", fmt.Sprint(epoch), "--rank",
						fmt.Sprint(rank), "--world-size", fmt.Sprint(world)}, args...)
					want := strings.Split(strings.TrimSpace(must(t, sample...)), "\n")
					got := digestsFed(t, con, epoch)
					if !slices.Equal(got, want) {
						t.Errorf("rank %d, epoch %d: got\n%s\nwant\n%s", rank, epoch, strings.Join(got, "\n"),
							strings.Join(want, "\n"))
					}
				}
			}
		})
	}
}

// What runs say of their options is a configuration: a run that is given it says the same.
func TestRunsSayTheirOptionsAsAConfiguration(t *testing.T) {
	data, file := small(t), filepath.Join(t.TempDir(), "c.json")
	read := func(text json.RawMessage) config.Options {
		o, err := config.Parse(string(text))
		expect.Ensure(t, err == nil, "%s: %v", text, err)
		return o
	}
	for _, args := range []string{
		"--batch-size 50 --fanouts 3,2 --replace --max-memory 2GB --resident",
		"--sampler pinsage --walks 3 --seed 18446744073709551615 --shuffle --workers 2",
		"--seeds all-edges --negatives degree --negative-ratio 0.5 --exclude-seeds reverse --prefetch 3",
	} {
		flags := append([]string{data}, strings.Fields(args)...)
		said := startServer(t, flags...).ready.Options
		first := read(said)
		var bench benchResult
		measure := append([]string{"bench", "--json", "--batches", "1", "--warmup", "0", "--no-memcpy"}, flags...)
		expect.OK(t, json.Unmarshal([]byte(must(t, measure...)), &bench))
		expect.OK(t, os.WriteFile(file, said, 0o600))
		again := startServer(t, data, "--seeds", "all-edges", "--config", file).ready.Options
		for name, text := range map[string]json.RawMessage{"bench": bench.Options, "the second server": again} {
			expect.That(t, reflect.DeepEqual(read(text), first), "%s: %s says %s, and the first %s", args, name, text,
				said)
		}
	}
	want := config.Options{Options: loader.Options{Sampler: sampling.Induced{}, BatchSize: 7,
		Device: loader.DeviceOptions{Name: "cpu"}}}
	said := startServer(t, data, "--sampler", "induced", "--batch-size", "7", "--device", "cpu").ready.Options
	got := read(said)
	option.Fill(&want)
	option.Fill(&got)
	expect.That(t, reflect.DeepEqual(got, want), "%s:\n%+v, not\n%+v", said, got, want)
}

func TestServeEndsOnSignalsAndLeavesNothing(t *testing.T) {
	data := small(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		s := startServer(t, data, "--batch-size", "10")
		c := s.connect(t, consumer.Options{})
		signalled := false
		for _, err := range c.Epoch(t.Context(), 0) {
			if err != nil {
				expect.That(t, errors.Is(err, shm.ErrEnded), "the consumer got %v", err)
				break
			}
			if !signalled { // a second would end it at once
				signalled = true
				expect.OK(t, s.Process.Signal(signal))
			}
		}
		if code := s.status(t); code != exitInterrupted || !strings.Contains(s.stderr.String(), "interrupted") {
			t.Errorf("%v: status %d, %v", signal, code, s.stderr)
		}
		_, err := os.Lstat(filepath.Dir(s.ready.Socket))
		expect.That(t, err != nil, "%v: the socket's directory is still there", signal)
	}
}

func TestServeEndsWithItsEpochsAndGoesOnFromItsState(t *testing.T) {
	data, state := small(t), filepath.Join(t.TempDir(), "state.json")
	numbers := func(c *consumer.Consumer, most int) (list []uint64) {
		for b, err := range c.GoOn(t.Context()) {
			expect.OK(t, err)
			if list = append(list, b.Epoch*100+b.Number); len(list) == most {
				break
			}
		}
		return list
	}
	// 5 batches an epoch
	args := []string{data, "--batch-size", "400", "--epochs", "2", "--state", state, "--seeds", "all"}
	s := startServer(t, args...)
	got := numbers(s.connect(t, consumer.Options{}), 4)[:3]
	expect.OK(t, s.Process.Kill())
	s.status(t)
	s = startServer(t, args...)
	c := s.connect(t, consumer.Options{})
	got = append(got, numbers(c, 0)...)
	got = append(got, numbers(c, 0)...)
	expect.That(t, slices.Equal(got, []uint64{0, 1, 2, 3, 4, 100, 101, 102, 103, 104}), "batches %v", got)
	code := s.status(t)
	expect.That(t, code == exitDone, "status %d, %v", code, s.stderr)
}

func TestServeEndsWithItsParent(t *testing.T) {
	socket := socketPath(t)
	parent := process(t, "sh", "-c", `"$0" serve "$1" --socket "$2" --parent $$ & read nothing`, program(t), small(t),
		socket)
	in := expect.Must(parent.StdinPipe())(t)
	defer in.Close()
	out, err := parent.StdoutPipe() // its child has it too: it ends with both
	expect.OK(t, err)
	expect.OK(t, parent.Start())
	lines := bufio.NewReader(out)
	if text, err := lines.ReadString('\n'); err != nil || !strings.Contains(text, socket) {
		t.Fatalf("%q, %v", text, err)
	}
	expect.OK(t, parent.Process.Kill())
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	_ = parent.Wait()
	if _, err := os.Lstat(filepath.Dir(socket)); err == nil {
		t.Error("the socket's directory is still there")
	}
}

func TestServeMetrics(t *testing.T) {
	s := startServer(t, small(t), "--metrics", "127.0.0.1:0", "--world-size", "2", "--batch-size", "10")
	c := s.connect(t, consumer.Options{})
	for _, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
	}
	r := expect.Must(http.Get("http://" + s.ready.Metrics + "/metrics"))(t)
	defer r.Body.Close()
	b := expect.Must(io.ReadAll(r.Body))(t)
	text := string(b)
	for _, line := range []string{
		"khop_feed_batches_done_total{rank=\"0\"} " + fmt.Sprint(c.Info().Batches),
		"khop_feed_batches_sent_total{rank=\"1\"} 0",
		fmt.Sprintf("khop_feed_held_slots{rank=\"0\",pid=\"%d\"} ", os.Getpid()),
		`khop_loader_stage_seconds_bucket{rank="0",stage="gather",le="8.192e-06"} `,
		"# TYPE khop_feed_batches_sent_total counter\n",
	} {
		expect.That(t, strings.Contains(text, line), "no %q in:\n%s", line, text)
	}
}

// A line says where batches are made, not why no other device makes them.
func TestServeSaysWhereItMakesBatches(t *testing.T) {
	cmd := process(t, program(t), "serve", small(t), "--socket", socketPath(t), "--device", "cpu")
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := expect.Must(bufio.NewReader(out).ReadString('\n'))(t)
	expect.That(t, strings.HasSuffix(line, " seeds a batch; made on cpu\n"), "%q", line)
}

func TestServeRefusesPlainly(t *testing.T) {
	data, open := small(t), filepath.Dir(filepath.Dir(socketPath(t)))
	expect.OK(t, os.Chmod(open, 0o755))
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", exitUsage, "--socket"},
		{"--socket " + open + "/socket", exitFailed, "mode 0700"},
		{"--socket " + open + "/a/s --broadcast 2 --world-size 2", exitUsage, "WorldSize is 2"},
		{"--socket " + open + "/a/s --device cuda", exitFailed, "no CUDA device"},
		{"--socket " + open + "/a/s --parent 1", exitUsage, "--parent 1"},
		{"--socket " + open + "/a/s --index-dtype float32", exitUsage, "--index-dtype"},
		{"--socket " + open + "/a/s --node-columns nosuch", exitUsage, "nosuch"},
		{"--socket " + open + "/a/s --state " + open + "/no/such/folder", exitFailed, "no such file"},
		{"--socket " + open + "/a/s --metrics nowhere", exitFailed, "--metrics"},
		{"--socket " + open + "/a/b/c/s", exitFailed, "directory of the socket"},
	} {
		out, errOut, code := khop(t, append([]string{"serve", data}, strings.Fields(c.args)...)...)
		expect.That(t, code == c.code && strings.Contains(errOut, c.text) && out == "",
			"khop serve %s: status %d, want %d; %q, and %q in %q", c.args, code, c.code, out, c.text, errOut)
		_, err := os.Lstat(open + "/a")
		expect.That(t, err != nil, "khop serve %s: left its directory", c.args)
	}
}

func TestStatusNamesWhoHoldsEverything(t *testing.T) {
	before := []shm.RankStats{{}}
	now := []shm.RankStats{{Epoch: 3, Sent: 20, Done: 17, Waiting: "consumer",
		Consumers: []shm.PeerStats{{PID: 77, Held: 3, OldestHeld: 61}}}}
	text := statusText(before, now, 2*time.Second)
	for _, part := range []string{"epoch 3", "17 batches", "10/s", "process 77", "61 s"} {
		expect.That(t, strings.Contains(text, part), "no %q in %q", part, text)
	}
	now[0].Consumers = nil
	if text := statusText(before, now, time.Second); !strings.Contains(text, "to connect") {
		t.Error(text)
	}
}
