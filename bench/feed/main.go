// Command feed measures what handing batches to another process costs: khop serve and a consumer beside khop bench
// alone, on the same settings, in turn; and batches that cost next to nothing to make, beside a torch DataLoader that
// sends the same tensors over and over. "make bench-feed" runs it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the command line.
type settings struct {
	khop, dataset, work, python, torch, out string
	rounds, batches, smallest, workers      int
}

// load is how batches of about 8 MB are made: 1,024 seeds, 20,000 nodes with 100 features each.
var load = []string{"--fanouts", "4,3", "--batch-size", "1024", "--shuffle", "--seed", "1", "--seeds", "all",
	"--frontier", "all", "--resident"}

// smallest is how batches of one seed and no columns are made: they show what handing over costs.
var smallest = []string{"--fanouts", "1", "--batch-size", "1", "--seed", "1", "--seeds", "all", "--resident",
	"--node-columns", "none", "--seed-columns", "none"}

// measured is what one consumer saw.
type measured struct {
	Batches    int     `json:"batches"`
	Seconds    float64 `json:"seconds"`
	BytesBatch float64 `json:"bytes_per_batch"`
}

func (m measured) rate() float64  { return float64(m.Batches) / m.Seconds }
func (m measured) micro() float64 { return m.Seconds / float64(m.Batches) * 1e6 }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "consume" {
		exit(consume(os.Args[2:]))
	}
	var s settings
	flag.StringVar(&s.khop, "khop", "", "khop's program; built from here unless given")
	flag.StringVar(&s.dataset, "dataset", "", "dataset; generated unless given")
	flag.StringVar(&s.work, "work", ".bench/feed", "folder for what is made")
	flag.StringVar(&s.python, "python", "", "Python with NumPy, to measure the Python consumer too")
	flag.StringVar(&s.torch, "torch", "", "Python with torch, to measure its DataLoader too")
	flag.StringVar(&s.out, "json", "", "file for the figures")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; each measures everything once")
	flag.IntVar(&s.batches, "batches", 2000, "batches to measure in a round")
	flag.IntVar(&s.smallest, "smallest", 200000, "batches of one seed to measure")
	flag.IntVar(&s.workers, "workers", runtime.NumCPU(), "workers of the loader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(s.run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/feed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// way is one thing to measure; its figures are of all rounds.
type way struct {
	name string
	once func(context.Context) (measured, error)
	all  []measured
}

func (s *settings) run(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	ways := []*way{
		{name: "khop bench", once: s.bench},
		s.feedWay("feed, Go consumer", s.goConsumer, s.batches, load),
		s.feedWay("smallest batches, Go consumer", s.goConsumer, s.smallest, smallest),
	}
	if s.python != "" {
		ways = append(ways, s.feedWay("feed, Python consumer", s.pyConsumer, s.batches, load),
			s.feedWay("smallest batches, Python consumer", s.pyConsumer, s.smallest, smallest))
	}
	if s.torch != "" {
		for _, strategy := range []string{"file_descriptor", "file_system"} {
			ways = append(ways, &way{name: "same tensors, torch DataLoader, " + strategy,
				once: func(ctx context.Context) (measured, error) {
					return s.script(ctx, s.torch, "bench/feed/torch_loader.py", strategy, strconv.Itoa(s.batches))
				}})
		}
	}
	for round := range s.rounds {
		for _, w := range ways {
			m, err := w.once(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.all = append(w.all, m)
			fmt.Fprintf(os.Stderr, "round %d: %-45s %9.1f batches/s, %8.1f us each, %.2f MB\n", round+1, w.name,
				m.rate(), m.micro(), m.BytesBatch/1e6)
		}
	}
	return s.report(ways)
}

// prepare builds khop and makes the dataset, where they were not given.
func (s *settings) prepare(ctx context.Context) error {
	if err := os.MkdirAll(s.work, 0o700); err != nil {
		return err
	}
	if s.khop == "" {
		s.khop = filepath.Join(s.work, "khop")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.khop, "./cmd/khop")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if s.dataset != "" {
		return nil
	}
	s.dataset = filepath.Join(s.work, "graph.khop")
	if _, err := os.Stat(filepath.Join(s.dataset, "dataset.json")); err == nil {
		return nil
	}
	generate := exec.CommandContext(ctx, s.khop, "generate", "sbm", s.dataset, "--nodes", "1000000", "--edges",
		"16000000", "--features", "100", "--classes", "10", "--seed", "1", "--force")
	if out, err := generate.CombinedOutput(); err != nil {
		return fmt.Errorf("khop generate: %w\n%s", err, out)
	}
	return nil
}

// taker takes batches from the server at a socket.
type taker func(ctx context.Context, socket string, batches int) (measured, error)

func (s *settings) feedWay(name string, c taker, batches int, load []string) *way {
	return &way{name: name, once: func(ctx context.Context) (measured, error) { return s.feed(ctx, c, batches, load) }}
}

// bench is khop alone: batches go to a loop that does nothing.
func (s *settings) bench(ctx context.Context) (m measured, err error) {
	args := append([]string{"bench", s.dataset, "--json", "--no-memcpy", "--warmup", "200", "--batches",
		strconv.Itoa(s.batches), "--workers", strconv.Itoa(s.workers)}, load...)
	cmd := exec.CommandContext(ctx, s.khop, args...)
	out, err := cmd.Output()
	if err != nil {
		return m, failed(cmd, err)
	}
	var r struct {
		Batches       int     `json:"batches"`
		Seconds       float64 `json:"seconds"`
		BytesPerBatch float64 `json:"bytes_per_batch"`
	}
	err = json.Unmarshal(out, &r)
	return measured{r.Batches, r.Seconds, r.BytesPerBatch}, err
}

// feed starts a server and lets a consumer measure it.
func (s *settings) feed(ctx context.Context, c taker, batches int, load []string) (m measured, err error) {
	dir, err := os.MkdirTemp("", "khop-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "feed")
	args := append([]string{"serve", s.dataset, "--socket", socket, "--json", "--parent", strconv.Itoa(os.Getpid()),
		"--workers", strconv.Itoa(s.workers)}, load...)
	cmd := exec.CommandContext(ctx, s.khop, args...)
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return m, err
	}
	if err := cmd.Start(); err != nil {
		return m, err
	}
	if _, err = bufio.NewReader(out).ReadString('}'); err == nil { // it is ready
		m, err = c(ctx, socket, batches)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	end := (*exec.ExitError)(nil)
	if e := cmd.Wait(); !errors.As(e, &end) || end.ExitCode() != 130 {
		err = errors.Join(err, fmt.Errorf("khop serve: %v\n%v", e, cmd.Stderr))
	}
	return m, err
}

func (s *settings) goConsumer(ctx context.Context, socket string, batches int) (measured, error) {
	self, err := os.Executable()
	if err != nil {
		return measured{}, err
	}
	return s.script(ctx, self, "consume", socket, strconv.Itoa(batches))
}

func (s *settings) pyConsumer(ctx context.Context, socket string, batches int) (measured, error) {
	return s.script(ctx, s.python, "bench/feed/consume.py", socket, strconv.Itoa(batches))
}

// script runs a program that prints its figures as JSON.
func (s *settings) script(ctx context.Context, program string, args ...string) (m measured, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.Output()
	if err != nil {
		return m, failed(cmd, err)
	}
	return m, json.Unmarshal(out, &m)
}

func failed(cmd *exec.Cmd, err error) error {
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		return fmt.Errorf("%v: %w\n%s", cmd, err, exit.Stderr)
	}
	return fmt.Errorf("%v: %w", cmd, err)
}

// figure is one line of the report.
type figure struct {
	Name       string  `json:"name"`
	BytesBatch float64 `json:"bytes_per_batch"`
	Rate       float64 `json:"batches_per_s"` // median of the rounds
	Micro      float64 `json:"us_per_batch"`  // median of the rounds
	Least      float64 `json:"us_least"`
	Most       float64 `json:"us_most"`
	// median over the rounds of its rate by khop bench's in the same round
	OfBench float64    `json:"of_bench,omitempty"`
	Added   float64    `json:"added_us,omitempty"` // median over the rounds of its time a batch less khop bench's
	All     []measured `json:"all"`
}

func (s *settings) report(ways []*way) error {
	var list []figure
	fmt.Printf("| %-45s | MB a batch | batches/s | us a batch | least to most | of khop bench | added us "+
		"|\n|---|---|---|---|---|---|---|\n", "")
	for _, w := range ways {
		f := figure{Name: w.name, BytesBatch: w.all[0].BytesBatch, All: w.all}
		var micro, of, added []float64
		for i, m := range w.all {
			micro = append(micro, m.micro())
			of = append(of, m.rate()/ways[0].all[i].rate())
			added = append(added, m.micro()-ways[0].all[i].micro())
		}
		f.Micro, f.Least, f.Most = median(micro), slices.Min(micro), slices.Max(micro)
		f.Rate = 1e6 / f.Micro
		text := "|"
		if strings.HasPrefix(w.name, "feed") {
			f.OfBench, f.Added = median(of), median(added)
			text = fmt.Sprintf("%.1f %% | %.1f", 100*f.OfBench, f.Added)
		}
		fmt.Printf("| %-45s | %.2f | %.1f | %.1f | %.1f to %.1f | %s |\n", f.Name, f.BytesBatch/1e6, f.Rate, f.Micro,
			f.Least, f.Most, text)
		list = append(list, f)
	}
	if s.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{"when": time.Now().UTC().Format(time.RFC3339),
		"cpus": runtime.NumCPU(), "workers": s.workers, "load": load, "rounds": s.rounds, "figures": list}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, append(text, '\n'), 0o644)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
