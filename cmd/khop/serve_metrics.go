package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/loader"
)

// serveMetrics answers Prometheus at --metrics, where that is given, until stop is called.
func (c *serveCmd) serveMetrics(s *server.Server) (address string, stop func(), err error) {
	if c.Metrics == "" {
		return "", func() {}, nil
	}
	l, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return "", nil, fmt.Errorf("--metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, s.Stats())
	})
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close()
		}
	}()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close()
		}
		<-done
	}, nil
}

// writeMetrics writes Prometheus's text format. The names stay.
func writeMetrics(w io.Writer, ranks []shm.RankStats) {
	metric := func(name, kind, help string, values func(r *shm.RankStats, put func(labels string, v float64))) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for i := range ranks {
			values(&ranks[i], func(labels string, v float64) {
				fmt.Fprintf(w, "%s{rank=\"%d\"%s} %g\n", name, ranks[i].Rank, labels, v)
			})
		}
	}
	one := func(name, kind, help string, value func(r *shm.RankStats) float64) {
		metric(name, kind, help, func(r *shm.RankStats, put func(string, float64)) { put("", value(r)) })
	}
	one("khop_feed_batches_sent_total", "counter", "Batches announced to consumers.",
		func(r *shm.RankStats) float64 { return float64(r.Sent) })
	one("khop_feed_batches_done_total", "counter", "Batches that consumers acknowledged.",
		func(r *shm.RankStats) float64 { return float64(r.Done) })
	one("khop_feed_epoch", "gauge", "Epoch in which the rank stands.",
		func(r *shm.RankStats) float64 { return float64(r.Epoch) })
	one("khop_feed_ring_bytes", "gauge", "Size of the ring's segments on the host.",
		func(r *shm.RankStats) float64 { return float64(r.RingBytes) })
	one("khop_feed_ring_device_bytes", "gauge", "Size of the ring's segments on a device.",
		func(r *shm.RankStats) float64 { return float64(r.OnDevice) })
	one("khop_feed_consumers", "gauge", "Consumers that are connected.",
		func(r *shm.RankStats) float64 { return float64(len(r.Consumers)) })
	metric("khop_feed_waiting", "gauge", "1 for whom the rank waits.",
		func(r *shm.RankStats, put func(string, float64)) {
			for _, who := range []string{"loader", "consumer"} {
				v := 0.0
				if r.Waiting == who {
					v = 1
				}
				put(fmt.Sprintf(",for=%q", who), v)
			}
		})
	metric("khop_feed_held_slots", "gauge", "Slots that a consumer holds.",
		func(r *shm.RankStats, put func(string, float64)) {
			for _, c := range r.Consumers {
				put(fmt.Sprintf(",pid=\"%d\"", c.PID), float64(c.Held))
			}
		})
	metric("khop_feed_oldest_held_seconds", "gauge", "How long a consumer has held a slot at most.",
		func(r *shm.RankStats, put func(string, float64)) {
			for _, c := range r.Consumers {
				put(fmt.Sprintf(",pid=\"%d\"", c.PID), c.OldestHeld)
			}
		})
	one("khop_loader_batches_total", "counter", "Batches loaded.",
		func(r *shm.RankStats) float64 { return float64(r.Loader.Batches) })
	one("khop_loader_edges_total", "counter", "Edges sampled.",
		func(r *shm.RankStats) float64 { return float64(r.Loader.Edges) })
	one("khop_loader_rows_total", "counter", "Rows gathered.",
		func(r *shm.RankStats) float64 { return float64(r.Loader.Rows) })
	one("khop_loader_bytes_total", "counter", "Bytes gathered.",
		func(r *shm.RankStats) float64 { return float64(r.Loader.Bytes) })
	metric("khop_loader_memory_bytes", "gauge", "Memory held, by purpose.",
		func(r *shm.RankStats, put func(string, float64)) {
			m := r.Loader.Memory
			put(`,purpose="topology"`, float64(m.Topology))
			put(`,purpose="columns"`, float64(m.Columns))
			put(`,purpose="batches"`, float64(m.Batches))
			put(`,purpose="scratch"`, float64(m.Scratch))
		})
	stages := func(r *shm.RankStats, put func(string, loader.Durations)) {
		l := &r.Loader
		put("sample", l.Sample)
		put("gather", l.Gather)
		put("deliver", l.Deliver)
		put("wait", l.Wait)
		put("body", l.Body)
	}
	fmt.Fprint(w, "# HELP khop_loader_stage_seconds Time a batch spent in a stage.\n# TYPE khop_loader_stage_seconds summary\n")
	for i := range ranks {
		stages(&ranks[i], func(stage string, d loader.Durations) {
			labels := fmt.Sprintf("rank=\"%d\",stage=%q", ranks[i].Rank, stage)
			for _, q := range []struct {
				name string
				v    time.Duration
			}{{"0.5", d.P50}, {"0.9", d.P90}, {"0.99", d.P99}} {
				fmt.Fprintf(w, "khop_loader_stage_seconds{%s,quantile=%q} %g\n", labels, q.name, q.v.Seconds())
			}
			fmt.Fprintf(w, "khop_loader_stage_seconds_sum{%s} %g\nkhop_loader_stage_seconds_count{%s} %d\n", labels,
				d.Sum.Seconds(), labels, d.Count)
		})
	}
}
