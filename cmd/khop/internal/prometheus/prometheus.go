// Package prometheus serves what a feed's server counts, in Prometheus's text format, and bounds what its readers take.
package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/loader"
)

// scraping bounds what those who read metrics can take.
type scraping struct {
	connections int           // open at a time; the oldest gives way to another
	header      int           // bytes of a request
	read, write time.Duration // for a request, and for its answer
	idle        time.Duration // between requests
}

var scrapes = scraping{connections: 64, header: 8 << 10, read: 5 * time.Second, write: 10 * time.Second,
	idle: 30 * time.Second}

// Serve answers at a listener, until stop is called. Those who do not read their answers, or finish no request, take no
// place from others.
func Serve(l net.Listener, handler http.Handler) (stop func()) { return scrapes.serve(l, handler) }

// Metrics answers with metrics of ranks.
func Metrics(stats func() []shm.RankStats) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, stats())
	})
	return mux
}

// serve answers at a listener, until stop is called.
func (limits scraping) serve(l net.Listener, handler http.Handler) (stop func()) {
	h := &http.Server{Handler: handler, MaxHeaderBytes: limits.header, ReadHeaderTimeout: limits.read,
		ReadTimeout: limits.read, WriteTimeout: limits.write, IdleTimeout: limits.idle,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(&crowd{Listener: l, most: limits.connections}) // this closes the listener
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close()
		}
		<-done
	}
}

// crowd is a listener with a limit of connections. The one that has been open longest gives way to a new one, so
// nobody waits for those who do not finish what they say, or read nothing.
type crowd struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []net.Conn // the oldest first
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &member{conn, c}
	c.mu.Lock()
	c.open = append(c.open, m)
	oldest := c.open[0]
	full := len(c.open) > c.most
	c.mu.Unlock()
	if full {
		_ = oldest.Close()
	}
	return m, nil
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	of *crowd
}

// Close implements net.Conn.
func (m *member) Close() error {
	m.of.mu.Lock()
	m.of.open = slices.DeleteFunc(m.of.open, func(c net.Conn) bool { return c == m })
	m.of.mu.Unlock()
	return m.Conn.Close()
}

// value is one value of a metric: suffix is appended to the metric's name, labels to the rank's.
type value struct {
	suffix, labels string
	v              float64
}

type rankStats = shm.RankStats

// metric is a metric of each rank: a counter where its name ends with _total, else a gauge unless kind says otherwise.
// Programs rely on the names.
type metric struct {
	name, help string
	of         func(r *rankStats) []value
	kind       string
}

// one is a metric of one value.
func one[T uint64 | int64 | int](name, help string, of func(r *rankStats) T) metric {
	return metric{name, help, func(r *rankStats) []value { return []value{{v: float64(of(r))}} }, ""}
}

var metrics = []metric{
	one("khop_feed_batches_sent_total", "Batches announced to consumers.", func(r *rankStats) uint64 { return r.Sent }),
	one("khop_feed_batches_done_total", "Batches that consumers acknowledged.",
		func(r *rankStats) uint64 { return r.Done }),
	one("khop_feed_epoch", "Epoch in which the rank stands.", func(r *rankStats) uint64 { return r.Epoch }),
	one("khop_feed_ring_bytes", "Size of the ring's segments on the host.",
		func(r *rankStats) int64 { return r.RingBytes }),
	one("khop_feed_ring_device_bytes", "Size of the ring's segments on a device.",
		func(r *rankStats) int64 { return r.OnDevice }),
	one("khop_feed_consumers", "Consumers that are connected.", func(r *rankStats) int { return len(r.Consumers) }),
	{"khop_feed_waiting", "1 for whom the rank waits.", func(r *rankStats) (list []value) {
		for _, who := range []string{"loader", "consumer"} {
			v := 0.0
			if r.Waiting == who {
				v = 1
			}
			list = append(list, value{"", fmt.Sprintf(",for=%q", who), v})
		}
		return list
	}, ""},
	ofConsumers("khop_feed_held_slots", "Slots that a consumer holds.",
		func(c shm.PeerStats) float64 { return float64(c.Held) }),
	ofConsumers("khop_feed_oldest_held_seconds", "How long a consumer has held a slot at most.",
		func(c shm.PeerStats) float64 { return c.OldestHeld }),
	one("khop_loader_batches_total", "Batches loaded.", func(r *rankStats) uint64 { return r.Loader.Batches }),
	one("khop_loader_edges_total", "Edges sampled.", func(r *rankStats) uint64 { return r.Loader.Edges }),
	one("khop_loader_rows_total", "Rows gathered.", func(r *rankStats) uint64 { return r.Loader.Rows }),
	one("khop_loader_bytes_total", "Bytes gathered.", func(r *rankStats) uint64 { return r.Loader.Bytes }),
	{"khop_loader_memory_bytes", "Memory held, by purpose.", func(r *rankStats) []value {
		m := r.Loader.Memory
		return []value{
			{"", `,purpose="topology"`, float64(m.Topology)}, {"", `,purpose="columns"`, float64(m.Columns)},
			{"", `,purpose="batches"`, float64(m.Batches)}, {"", `,purpose="scratch"`, float64(m.Scratch)},
		}
	}, ""},
	{"khop_loader_stage_seconds", "Time a batch spent in a stage.", stages, "histogram"},
}

// ofConsumers is a metric with a value for each consumer.
func ofConsumers(name, help string, of func(shm.PeerStats) float64) metric {
	return metric{name, help, func(r *rankStats) (list []value) {
		for _, c := range r.Consumers {
			list = append(list, value{"", fmt.Sprintf(",pid=\"%d\"", c.PID), of(c)})
		}
		return list
	}, ""}
}

func stages(r *rankStats) (list []value) {
	l := &r.Loader
	for _, s := range []struct {
		name string
		d    loader.Durations
	}{{"sample", l.Sample}, {"gather", l.Gather}, {"disk", l.Disk}, {"idle", l.Idle}, {"deliver", l.Deliver},
		{"wait", l.Wait}, {"body", l.Body}} {
		stage := fmt.Sprintf(",stage=%q", s.name)
		for i, n := range s.d.Below {
			le := fmt.Sprintf("%s,le=\"%g\"", stage, math.Ldexp(1e-9, 13+i))
			list = append(list, value{"_bucket", le, float64(n)})
		}
		list = append(list, value{"_bucket", stage + `,le="+Inf"`, float64(s.d.Count)},
			value{"_sum", stage, s.d.Sum.Seconds()}, value{"_count", stage, float64(s.d.Count)})
	}
	return list
}

// writeMetrics writes Prometheus's text format. Its own library would make the program two fifths larger, and
// VictoriaMetrics's has no help texts, writes the type anew for each rank, and no histogram that was counted elsewhere.
func writeMetrics(w io.Writer, ranks []shm.RankStats) {
	for _, m := range metrics {
		kind := cmp.Or(m.kind, "gauge")
		if strings.HasSuffix(m.name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, kind)
		for i := range ranks {
			for _, s := range m.of(&ranks[i]) {
				fmt.Fprintf(w, "%s%s{rank=\"%d\"%s} %g\n", m.name, s.suffix, ranks[i].Rank, s.labels, s.v)
			}
		}
	}
}
