package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

type serveCmd struct {
	loadFlags `embed:""`

	Config configFile `placeholder:"FILE" help:"${config_help}"`

	Socket string `required:"" type:"path" placeholder:"PATH" help:"Where to make the socket, in a folder of your own."`

	HotShare loader.Sharing `enum:"auto,none,all" default:"auto" help:"${hot_share_help}"`

	WorldSize    positive `default:"1" help:"Ranks, each with a ring and an equal share of batches."`
	Broadcast    int      `default:"0" help:"Give the same batches to N consumers, from one ring."`
	Epochs       uint64   `default:"0" help:"End after N epochs; 0: go on."`
	Hold         int      `default:"0" help:"Batches that a consumer may hold; 0: 4, small ones 12."`
	MaxConsumers positive `default:"64" help:"Consumers that may be connected at a time."`

	ReaderTimeout time.Duration `default:"50s" help:"How long a broadcast waits for a reader."`

	Remainder  loader.Remainder `enum:"pad,drop,short" default:"pad" help:"If batches do not divide by ranks: ${enum}."`
	IndexDType string           `name:"index-dtype" enum:"auto,int32,int64" default:"auto" help:"${index_dtype_help}"`

	NodeColumns []string `placeholder:"NAMES" help:"Columns for all nodes of a batch, default feature; none for none."`
	SeedColumns []string `placeholder:"NAMES" help:"Columns for the seeds of a batch, default label; none for none."`
	EdgeColumns []string `placeholder:"NAMES" help:"Columns for the edges of a batch, default none."`
	EdgePos     bool     `help:"Deliver the edges' positions in the dataset."`

	State   string `type:"path" placeholder:"FILE" help:"Keep the place in a file, and go on from it."`
	Metrics string `placeholder:"ADDRESS" help:"Serve metrics for Prometheus there, such as 127.0.0.1:0."`
	Parent  int    `placeholder:"PID" help:"End when that process, which started this one, ends."`
	JSON    bool   `name:"json" help:"Print one JSON object when consumers can connect."`
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
	Protocol   int    `json:"protocol"`
	Device     string `json:"device"` // where batches of rank 0 are made
	Why        string `json:"device_reason"`
}

// errParent ends a server whose parent has ended.
var errParent = errors.New("the process that started the server has ended")

// Run serves until it is interrupted, its parent ends or all epochs are loaded.
func (c *serveCmd) Run(env *environment) (err error) {
	ctx, cancel := context.WithCancelCause(env.ctx)
	defer cancel(nil)
	if c.Parent != 0 {
		stop := server.WatchProcess(c.Parent, func() { cancel(errParent) })
		defer stop()
		if os.Getppid() != c.Parent { // it has ended before it could be watched
			return usageError("--parent %d: that is not the process that started this one", c.Parent)
		}
	}
	ds, err := formats.Open(c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	s, err := c.listen(ctx, env, ds)
	if err != nil {
		return c.ended(err)
	}
	defer closing(&err, s.Close)
	address, stop, err := c.serveMetrics(s)
	if err != nil {
		return err
	}
	defer stop()
	if err := c.ready(env, s, address); err != nil {
		return err
	}
	defer env.showStatus(s)()
	return c.ended(s.Serve(ctx))
}

// listen makes the server.
func (c *serveCmd) listen(ctx context.Context, env *environment, ds *formats.Dataset) (*server.Server, error) {
	opt, err := c.serverOptions(env, ds)
	if err != nil {
		return nil, err
	}
	bar := env.newProgress()
	defer bar.finish()
	opt.Loader.Hooks.Progress = bar.report()
	return server.New(ctx, ds, opt)
}

// serverOptions returns what the flags say.
func (c *serveCmd) serverOptions(env *environment, ds *formats.Dataset) (none server.Options, err error) {
	opt, err := c.options(env, ds)
	if err != nil {
		return none, err
	}
	opt.EnsureDefaults()
	opt.Remainder, opt.Columns.EdgePos, opt.Tuning.HotShare = c.Remainder, c.EdgePos, c.HotShare
	opt.Columns.Nodes, opt.Columns.Seeds, opt.Columns.Edges = columnNames(c.NodeColumns), columnNames(c.SeedColumns),
		columnNames(c.EdgeColumns)
	log := slog.New(slog.NewTextHandler(env.overStatus(), &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	opt.Hooks.Logger = log
	patience := c.ReaderTimeout
	if patience == 0 {
		patience = -1
	}
	index := unified.Invalid
	if c.IndexDType != "auto" {
		if index, err = unified.ParseDType(c.IndexDType); err != nil {
			return none, err
		}
	}
	return server.Options{
		Path: c.Socket, Loader: opt, WorldSize: int(c.WorldSize), Readers: c.Broadcast, Hold: c.Hold, IndexDType: index,
		ReaderTimeout: patience, Epochs: c.Epochs, MaxConsumers: int(c.MaxConsumers), StateFile: c.State,
		Version: versionNumber, Logger: log,
	}, nil
}

// columnNames reads the value of a list of columns: nil for the default, "none" for none.
func columnNames(names []string) []string {
	if len(names) == 1 && names[0] == "none" {
		return []string{}
	}
	return names
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// ended makes an orderly end of what was told to end with its parent.
func (c *serveCmd) ended(err error) error {
	if errors.Is(err, errParent) {
		return nil
	}
	return err
}

// ready tells that consumers can connect.
func (c *serveCmd) ready(env *environment, s *server.Server, metrics string) error {
	o := s.Options()
	r := serveReady{
		Socket: paths.Text(c.Socket), PID: os.Getpid(), Dataset: paths.Text(c.Dataset), Ranks: o.WorldSize,
		Readers: o.Readers,
		Batches: s.NumBatches(), Hold: o.Hold, IndexDType: o.IndexDType.String(), Metrics: metrics,
		Protocol: shm.Version, Device: o.Loader.Device.Name, Why: s.DeviceReason(),
	}
	if c.JSON {
		return env.printJSON(r)
	}
	_, err := fmt.Fprintf(env.stdout,
		"serving %s at %s: %s batches an epoch and rank, %d ranks, %d seeds a batch; %s: %s\n", r.Dataset, r.Socket,
		humanize.Comma(int64(r.Batches)), r.Ranks, o.Loader.BatchSize, r.Device, r.Why)
	if err == nil && metrics != "" {
		_, err = fmt.Fprintf(env.stdout, "metrics at http://%s/metrics\n", metrics)
	}
	return err
}
