// Package otel tells OpenTelemetry what a loader does: spans of epochs and batches (Epoch), and what a loader counts as
// metrics (Observe). It is a module of its own: khop links nothing of it.
//
//	stop, err := otel.Observe(provider.Meter("khop"), l)
//	for b, err := range otel.Epoch(ctx, tracer.Tracer("khop"), l, epoch) {
//		train(b.Context, b.Batch) // spans of train are children of the batch's
//	}
//
// Who made a batch, and how long each hop took, is in a trace of khop's own (loader.TuningOptions.Trace), since a span
// a hop is more than collectors take.
package otel
