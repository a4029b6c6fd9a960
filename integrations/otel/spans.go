package otel

import (
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/khop-gnn/khop/loader"
)

// Batch is a batch, and the context of its span, in which the trainer's own spans are the span's children.
type Batch struct {
	*loader.Batch
	Context context.Context
}

// Epoch goes over the batches of an epoch as loader.Epoch does, with its errors. It makes a span "khop.epoch", and in
// it for each batch "khop.wait", while the loop waits for it, and "khop.step", while the loop has it. Their
// attributes are khop.epoch and khop.batch (its number); the epoch also has khop.batches, their number, and
// khop.report, the sentence on what it waited for, if any. An error is the status of the epoch.
func Epoch(ctx context.Context, tracer trace.Tracer, l *loader.Loader, n uint64) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		number := attribute.Int64("khop.epoch", int64(n))
		ctx, epoch := tracer.Start(ctx, "khop.epoch", trace.WithAttributes(number))
		defer epoch.End()
		batches := 0
		defer func() {
			epoch.SetAttributes(attribute.Int("khop.batches", batches))
			if said := l.Report().String(); said != "" {
				epoch.SetAttributes(attribute.String("khop.report", said))
			}
		}()
		since := time.Now()
		for b, err := range l.Epoch(ctx, n) {
			if err != nil {
				epoch.RecordError(err)
				epoch.SetStatus(codes.Error, err.Error())
				yield(Batch{}, err)
				return
			}
			is := trace.WithAttributes(number, attribute.Int64("khop.batch", int64(b.Number)))
			_, wait := tracer.Start(ctx, "khop.wait", is, trace.WithTimestamp(since))
			wait.End()
			batches++
			if !step(ctx, tracer, b, is, yield) {
				return
			}
			since = time.Now()
		}
	}
}

// step gives a batch to the loop, and ends its span also where that panics.
func step(ctx context.Context, tracer trace.Tracer, b *loader.Batch, is trace.SpanStartOption,
	yield func(Batch, error) bool) bool {
	ctx, span := tracer.Start(ctx, "khop.step", is)
	defer span.End()
	return yield(Batch{b, ctx}, nil)
}
