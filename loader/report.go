package loader

import (
	"cmp"
	"time"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/verdict"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/sampling"
)

// Report describes, in a sentence, what a run waited for, and what to change. docs/troubleshooting.md has the rules.
type Report struct {
	Rule   string  `json:"rule"`   // which rule applies; "" if none does
	Limit  string  `json:"limit"`  // the limit that was reached: "sampling", "memory", "disk requests", "consumer", ...
	Text   string  `json:"text"`   // what waited for what, how long, and why
	Option string  `json:"option"` // what to change: its name on the command line; "" for none
	Value  string  `json:"value"`  // its new value
	Advice string  `json:"advice"` // other advice; "" for none
	Gain   float64 `json:"gain"`   // how many times as fast the run can become, at most; 0: not known

	Seconds float64 `json:"seconds"` // of the run
	Batches uint64  `json:"batches"`
	Waited  float64 `json:"waited"` // the share of time in which the loop waited for batches, except for the first
}

// String returns the sentence; "" if no rule applies.
func (r Report) String() string {
	v := verdict.Verdict(r)
	return v.Say(func(name, value string) string {
		for _, o := range option.Of(Options{}) {
			if o.Name == name {
				return o.Path + " " + value
			}
		}
		return name + " " + value
	})
}

// Report says what the running epoch, or else the last one, has waited for so far. It may be called at any time.
func (l *Loader) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return l.running.report()
	}
	return l.told
}

// readActivity is a variable for tests only.
var readActivity = machine.ReadActivity

// sums is what a loader has counted, as far as reports need it.
type sums struct {
	machine.Activity
	batches, edges, rows, bytes            uint64
	wait, body, sample, gather, disk, idle time.Duration
	asked, missed                          int64 // rows on disk
}

func (l *Loader) sums() sums {
	c := &l.stats
	rows, _, _, _ := l.ahead.Report()
	return sums{Activity: readActivity(), batches: c.batches.Load(), edges: c.edges.Load(), rows: c.rows.Load(),
		bytes: c.bytes.Load(), wait: c.wait.Sum(), body: c.body.Sum(), sample: c.Sample.Sum(),
		gather: c.Gather.Sum(), disk: c.Disk.Sum(), idle: c.idle.Sum(), asked: rows.Rows, missed: rows.Misses}
}

// report says what the run has waited for so far.
func (r *run) report() Report {
	l, is, was := r.l, r.l.sums(), &r.before
	f := verdict.Facts{Seconds: is.At.Sub(r.began).Seconds(), Batches: is.batches - was.batches,
		Wait: is.wait - was.wait, First: time.Duration(r.start.Load()), Body: is.body - was.body,
		Workers: int(min(uint64(len(l.workers)), r.rounds)), Prefetch: l.plan.Prefetch,
		Sample: is.sample - was.sample, Gather: is.gather - was.gather, Disk: is.disk - was.disk,
		Idle: is.idle - was.idle, Edges: is.edges - was.edges, Rows: is.rows - was.rows, Bytes: is.bytes - was.bytes,
		Mapped: l.residence == Mapped, Remote: l.plan.Set.HasGiven(), Asked: is.asked - was.asked,
		Missed: is.missed - was.missed, Topology: l.plan.Paged != nil, CacheBytes: l.cache,
		Device: l.plan.On.String() != "cpu", Cores: is.Processors, Faults: is.Faults - was.Faults}
	f.Own, f.Others = is.Since(was.Activity)
	if t := l.stats.tiers.Load(); t != nil {
		f.Hits = float64(t.Hits) / float64(max(t.Rows, 1))
	}
	v := verdict.Of(&f)
	if v.Option != "" {
		v.Option = called(v.Option).Option
	}
	return Report(v)
}

// warnOfTimes says that times have kept all seeds of some batches from all edges: they may have another unit.
func (r *run) warnOfTimes() {
	l := r.l
	n, _ := prepared.Bare(l.plan.Sampler).(sampling.Neighbor)
	batches := l.stats.batches.Load() - r.before.batches
	if n.Time.Edge == "" && n.Time.Node == "" || batches == 0 || l.stats.edges.Load() > r.before.edges {
		return
	}
	schema, units := l.placed.Graph().Schema(), map[string]string{}
	for _, c := range schema.EdgeColumns {
		units[c.Name] = c.Unit
	}
	column := n.Time.Edge
	if column == "" {
		column = n.Time.Node
		for _, t := range schema.Nodes {
			for _, c := range t.Columns {
				units[c.Name] = cmp.Or(units[c.Name], c.Unit)
			}
		}
	}
	unit := cmp.Or(units[column], "not known")
	l.plan.Log.Warn("no seed has reached any edge: compare the times of the seeds with those of the dataset",
		"batches", batches, "column", column, "unit", unit)
}
