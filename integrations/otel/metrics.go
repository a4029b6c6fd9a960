package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/khop-gnn/khop/loader"
)

// counter is a number of loader.Stats that grows.
type counter struct {
	name, unit, description string
	of                      func(*loader.Stats) int64
}

var counters = []counter{
	{"khop.loader.batches", "{batch}", "Batches that the loop received.",
		func(s *loader.Stats) int64 { return int64(s.Batches) }},
	{"khop.loader.nodes", "{node}", "Nodes of them.", func(s *loader.Stats) int64 { return int64(s.Nodes) }},
	{"khop.loader.edges", "{edge}", "Edges of them.", func(s *loader.Stats) int64 { return int64(s.Edges) }},
	{"khop.loader.rows", "{row}", "Rows gathered.", func(s *loader.Stats) int64 { return int64(s.Rows) }},
	{"khop.loader.bytes", "By", "Bytes gathered.", func(s *loader.Stats) int64 { return int64(s.Bytes) }},
}

// stages are what takes time: as stage in attributes.
var stages = map[string]func(*loader.Stats) loader.Durations{
	"sample":  func(s *loader.Stats) loader.Durations { return s.Sample },
	"gather":  func(s *loader.Stats) loader.Durations { return s.Gather },
	"disk":    func(s *loader.Stats) loader.Durations { return s.Disk },
	"idle":    func(s *loader.Stats) loader.Durations { return s.Idle },
	"deliver": func(s *loader.Stats) loader.Durations { return s.Deliver },
	"wait":    func(s *loader.Stats) loader.Durations { return s.Wait },
	"body":    func(s *loader.Stats) loader.Durations { return s.Body },
}

// Observe reports a loader's counts by a meter, each time that it is read: the counters khop.loader.batches, nodes,
// edges, rows and bytes; the counters khop.loader.stage.time (seconds) and khop.loader.stage.count, whose attribute
// stage is as in loader.Stats; and the gauges khop.loader.memory (bytes, whose attribute purpose is as in
// loader.Memory) and khop.loader.slots.held. All also have attrs, such as a rank. Call stop at any time, also after the
// loader is closed; the caller owns meter and loader.
func Observe(meter metric.Meter, l *loader.Loader, attrs ...attribute.KeyValue) (stop func() error, err error) {
	o := &observed{loader: l, attrs: attrs, common: metric.WithAttributes(attrs...)}
	if err := o.instruments(meter); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(o.observe, o.all...)
	if err != nil {
		return nil, err
	}
	return r.Unregister, nil
}

// observed is a loader and the instruments that tell of it.
type observed struct {
	loader *loader.Loader
	attrs  []attribute.KeyValue
	common metric.MeasurementOption

	counts        []metric.Int64ObservableCounter // as counters
	time          metric.Float64ObservableCounter
	times         metric.Int64ObservableCounter
	memory, slots metric.Int64ObservableGauge
	all           []metric.Observable
}

func (o *observed) instruments(meter metric.Meter) (err error) {
	for _, c := range counters {
		i, err := meter.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description))
		if err != nil {
			return err
		}
		o.counts, o.all = append(o.counts, i), append(o.all, i)
	}
	if o.time, err = meter.Float64ObservableCounter("khop.loader.stage.time", metric.WithUnit("s"),
		metric.WithDescription("Time that a stage took, of all workers.")); err != nil {
		return err
	}
	if o.times, err = meter.Int64ObservableCounter("khop.loader.stage.count",
		metric.WithDescription("How many times it was measured.")); err != nil {
		return err
	}
	if o.memory, err = meter.Int64ObservableGauge("khop.loader.memory", metric.WithUnit("By"),
		metric.WithDescription("Host memory held, by purpose.")); err != nil {
		return err
	}
	if o.slots, err = meter.Int64ObservableGauge("khop.loader.slots.held",
		metric.WithDescription("Slots whose batches are kept.")); err != nil {
		return err
	}
	o.all = append(o.all, o.time, o.times, o.memory, o.slots)
	return nil
}

// with returns the attributes of a measurement that has one of its own.
func (o *observed) with(name, value string) metric.MeasurementOption {
	return metric.WithAttributes(append(o.attrs[:len(o.attrs):len(o.attrs)], attribute.String(name, value))...)
}

func (o *observed) observe(_ context.Context, to metric.Observer) error {
	s := o.loader.Stats()
	for i, c := range counters {
		to.ObserveInt64(o.counts[i], c.of(&s), o.common)
	}
	for name, of := range stages {
		d := of(&s)
		to.ObserveFloat64(o.time, d.Sum.Seconds(), o.with("stage", name))
		to.ObserveInt64(o.times, int64(d.Count), o.with("stage", name))
	}
	for name, bytes := range map[string]int64{"topology": s.Memory.Topology, "columns": s.Memory.Columns,
		"batches": s.Memory.Batches, "scratch": s.Memory.Scratch} {
		to.ObserveInt64(o.memory, bytes, o.with("purpose", name))
	}
	to.ObserveInt64(o.slots, int64(s.SlotsHeld), o.common)
	return nil
}
