// Package otel reports a loader to OpenTelemetry: spans of epochs and batches (Epoch), and the loader's counts as
// metrics (Observe). It is a separate module: khop links nothing of it.
//
//	stop, err := otel.Observe(provider.Meter("khop"), l)
//	for b, err := range otel.Epoch(ctx, tracer.Tracer("khop"), l, epoch) {
//		train(b.Context, b.Batch) // spans of train are children of the batch's
//	}
//
// khop's own trace (loader.TuningOptions.Trace) shows which worker made a batch, and how long each hop took: a span for
// each hop would be too much for collectors.
package otel
