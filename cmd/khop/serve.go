package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/cmd/khop/internal/prometheus"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/project"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/internal/verdict"
	"github.com/khop-gnn/khop/loader"
)

type serveCmd struct {
	loadFlags `embed:""`

	Config configFile `placeholder:"FILE" help:"${config_help}"`

	Metrics  string `placeholder:"ADDRESS" help:"Serve metrics for Prometheus at this address."`
	liveFlag `embed:""`
	JSON     bool `name:"json" help:"Print one JSON object when consumers can connect."`
}

// serveReady is what "khop serve --json" prints. Programs that start a server rely on the names.
type serveReady struct {
	Socket     string `json:"socket"`
	PID        int    `json:"pid"`
	Dataset    string `json:"dataset"`
	Ranks      int    `json:"ranks"`
	Readers    int    `json:"readers"` // of a broadcast ring, else 0
	Batches    uint64 `json:"batches"` // an epoch, of rank 0
	Hold       int    `json:"hold"`
	IndexDType string `json:"index_dtype"`
	Metrics    string `json:"metrics,omitempty"` // address
	Page       string `json:"page,omitempty"`    // its URL
	Protocol   int    `json:"protocol"`
	Device     string `json:"device"` // where batches of rank 0 are made
	Why        string `json:"device_reason"`
	// Options are the loader's options as given, as a configuration that --config reads.
	Options json.RawMessage `json:"options"`
}

// Run serves until it is interrupted or all epochs are loaded.
func (c *serveCmd) Run(env *environment) (err error) {
	ds, err := c.openForLoaders(env, c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	s, err := c.listen(env, ds)
	if err != nil {
		return err
	}
	defer closing(&err, s.Close)
	address, stop, err := c.serveMetrics(s.Stats)
	if err != nil {
		return err
	}
	defer stop()
	url, hide, err := c.showLoaders(env, "khop serve "+paths.Text(c.Dataset), s.Stats)
	if err != nil {
		return err
	}
	defer hide()
	if err := c.ready(env, s, address, url); err != nil {
		return err
	}
	defer env.showStatus(s)()
	return s.Serve(env.ctx)
}

// serveMetrics answers Prometheus at --metrics, where that is given, until stop is called.
func (c *serveCmd) serveMetrics(stats func() []shm.RankStats) (address string, stop func(), err error) {
	if c.Metrics == "" {
		return "", func() {}, nil
	}
	l, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return "", nil, option.Wrong("metrics", ": %w", err)
	}
	return l.Addr().String(), prometheus.Serve(l, prometheus.Metrics(stats)), nil
}

// listen makes the server.
func (c *serveCmd) listen(env *environment, ds *formats.Dataset) (*server.Server, error) {
	opt, err := c.serverOptions(env, ds)
	if err != nil {
		return nil, err
	}
	bar := env.newProgress()
	defer underway.Moved("", 0, 0)
	defer bar.finish()
	opt.Loader.Hooks.Progress = bar.report()
	return server.New(env.ctx, ds, opt)
}

// serverOptions returns what the flags say.
func (c *serveCmd) serverOptions(env *environment, ds *formats.Dataset) (o server.Options, err error) {
	o = c.server
	if o.Loader, err = c.options(env, ds); err != nil {
		return server.Options{}, err
	}
	o.Logger = slog.New(slog.NewTextHandler(env.overStatus(), &slog.HandlerOptions{ReplaceAttr: inWords}))
	o.Loader.Hooks.Logger, o.Version = o.Logger, project.Version()
	return o, nil
}

// inWords leaves times out of a log, and spells options as the command line does.
func inWords(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	if r, ok := a.Value.Any().(loader.Report); ok {
		return slog.String(a.Key, sentence(r))
	}
	return a
}

// sentence is a report with options as the command line spells them.
func sentence(r loader.Report) string {
	v := verdict.Verdict(r)
	return v.Say(verdict.Flag)
}

// ready tells that consumers can connect.
func (c *serveCmd) ready(env *environment, s *server.Server, metrics, page string) error {
	o, made := s.Options(), s.Answer()
	r := serveReady{
		Socket: paths.Text(c.server.Path), PID: os.Getpid(), Dataset: paths.Text(c.Dataset), Ranks: o.WorldSize,
		Readers: o.Readers,
		Batches: s.NumBatches(), Hold: o.Hold, IndexDType: o.IndexDType.String(), Metrics: metrics, Page: page,
		Protocol: shm.Version, Device: made.Device, Why: s.DeviceReason(),
		Options: json.RawMessage(c.said().String()),
	}
	noteUnused(env, c.said().Options, r.Device, r.Why)
	if c.JSON {
		return env.printJSON(r)
	}
	_, err := fmt.Fprintf(env.stdout,
		"serving %s at %s: %s batches an epoch and rank, %d ranks, %d seeds a batch; made on %s\n", r.Dataset, r.Socket,
		humanize.Comma(int64(r.Batches)), r.Ranks, made.BatchSize, r.Device)
	if err == nil && metrics != "" {
		_, err = fmt.Fprintf(env.stdout, "metrics at http://%s/metrics\n", metrics)
	}
	return err
}
