package otel_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/otel"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// open opens a loader of a small dataset.
func open(t *testing.T, made func(*loader.Batch) error) *loader.Loader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.khop")
	opt := synthetic.Options{Nodes: 1000, Edges: 5000, Features: 4, Classes: 3, Seed: 1}
	_, err := synthetic.Generate(t.Context(), synthetic.SBM, path, opt)
	expect.OK(t, err)
	data := expect.Must(formats.Open(path))(t)
	l := expect.Must(loader.New(data, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3, 2}}, BatchSize: 100,
		Device: loader.DeviceOptions{Name: "cpu"}, Hooks: loader.Hooks{Made: made}}))(t)
	t.Cleanup(func() { expect.OK(t, errors.Join(l.Close(), data.Close())) })
	return l
}

// recorder returns a provider of tracers whose spans are kept in memory.
func recorder(t *testing.T) (*trace.TracerProvider, *tracetest.InMemoryExporter) {
	kept := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(trace.WithSyncer(kept))
	t.Cleanup(func() { expect.OK(t, p.Shutdown(context.Background())) })
	return p, kept
}

func value(s tracetest.SpanStub, name string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == name {
			return a.Value
		}
	}
	return attribute.Value{}
}

// An epoch has a span, in which each batch has one for waiting and one for the loop's step, and what the trainer does
// with a batch lies in the latter.
func TestAnEpochAndItsBatchesAreSpans(t *testing.T) {
	l := open(t, nil)
	p, kept := recorder(t)
	tracer := p.Tracer("test")
	batches := 0
	for b, err := range otel.Epoch(t.Context(), tracer, l, 3) {
		expect.OK(t, err)
		_, train := tracer.Start(b.Context, "train")
		train.End()
		batches++
	}
	spans := map[string][]tracetest.SpanStub{}
	for _, s := range kept.GetSpans() {
		spans[s.Name] = append(spans[s.Name], s)
	}
	expect.Ensure(t, len(spans["khop.epoch"]) == 1, "%d epochs", len(spans["khop.epoch"]))
	epoch := spans["khop.epoch"][0]
	expect.That(t, value(epoch, "khop.batches").AsInt64() == int64(batches) &&
		value(epoch, "khop.epoch").AsInt64() == 3 && epoch.Status.Code == codes.Unset, "%+v", epoch)
	for _, name := range []string{"khop.wait", "khop.step", "train"} {
		expect.Ensure(t, len(spans[name]) == batches && batches > 5, "%d spans %s, %d batches", len(spans[name]), name,
			batches)
	}
	at := epoch.StartTime
	for i := range batches {
		wait, step, train := spans["khop.wait"][i], spans["khop.step"][i], spans["train"][i]
		number := attribute.Int64Value(int64(i))
		expect.That(t, value(step, "khop.batch") == number && value(wait, "khop.batch") == number,
			"batch %d: %+v", i, step)
		expect.That(t, !wait.StartTime.Before(at) && !step.StartTime.Before(wait.EndTime) &&
			!epoch.EndTime.Before(step.EndTime), "batch %d: %+v, %+v", i, wait, step)
		expect.That(t, wait.Parent.SpanID() == epoch.SpanContext.SpanID() &&
			step.Parent.SpanID() == epoch.SpanContext.SpanID() &&
			train.Parent.SpanID() == step.SpanContext.SpanID(), "batch %d has other parents", i)
		at = step.EndTime
	}
}

func TestWhatEndsAnEpochIsItsStatus(t *testing.T) {
	bad := errors.New("the third batch is bad")
	l := open(t, func(b *loader.Batch) error {
		if b.Number == 2 && b.Epoch == 0 {
			return bad
		}
		return nil
	})
	p, kept := recorder(t)
	var last error
	batches := 0
	for _, err := range otel.Epoch(t.Context(), p.Tracer("test"), l, 0) {
		if last = err; err == nil {
			batches++
		}
	}
	spans := kept.GetSpans()
	epoch := spans[len(spans)-1]
	expect.That(t, errors.Is(last, bad) && batches == 2 && epoch.Status.Code == codes.Error && len(epoch.Events) == 1,
		"%d batches, then %v: %+v", batches, last, epoch)
	kept.Reset()
	for range otel.Epoch(t.Context(), p.Tracer("test"), l, 1) {
		break
	}
	spans = kept.GetSpans()
	expect.That(t, len(spans) == 3 && spans[2].Name == "khop.epoch" && spans[2].Status.Code == codes.Unset,
		"a loop that breaks off: %+v", spans)
}

// read returns what a meter tells, by name and the attribute that is not the rank's.
func read(t *testing.T, r metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	expect.OK(t, r.Collect(t.Context(), &all))
	values := map[string]float64{}
	put := func(name string, has attribute.Set, v float64) {
		rank, _ := has.Value("rank")
		expect.That(t, rank.AsInt64() == 1, "%s lacks the rank: %v", name, has)
		for _, key := range []attribute.Key{"stage", "purpose"} {
			if v, ok := has.Value(key); ok {
				name += " " + v.AsString()
			}
		}
		values[name] = v
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			}
		}
	}
	return values
}

func TestAMeterTellsWhatALoaderCounts(t *testing.T) {
	l := open(t, nil)
	r := metric.NewManualReader()
	p := metric.NewMeterProvider(metric.WithReader(r))
	stop := expect.Must(otel.Observe(p.Meter("test"), l, attribute.Int("rank", 1)))(t)
	for _, err := range l.Epoch(t.Context(), 0) {
		expect.OK(t, err)
	}
	s, told := l.Stats(), read(t, r)
	for name, want := range map[string]float64{"khop.loader.batches": float64(s.Batches),
		"khop.loader.edges": float64(s.Edges), "khop.loader.bytes": float64(s.Bytes),
		"khop.loader.stage.time sample": s.Sample.Sum.Seconds(), "khop.loader.stage.count wait": float64(s.Wait.Count),
		"khop.loader.memory batches": float64(s.Memory.Batches), "khop.loader.slots.held": 0} {
		got, ok := told[name]
		expect.That(t, ok && got == want, "%s is %v (%v), want %v", name, got, ok, want)
	}
	expect.That(t, len(told) == 5+2*7+4+1 && told["khop.loader.batches"] > 0, "%v", told)
	expect.OK(t, stop())
	expect.That(t, len(read(t, r)) == 0, "it tells more after stop")
}
