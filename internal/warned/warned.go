// Package warned turns what loaders warn of into sentences for the people at a door.
package warned

import (
	"context"
	"fmt"
	"log/slog"
)

// To returns a log whose warnings reach tell, with their attributes. next gets all records; it may be nil.
func To(tell func(text string), next slog.Handler) *slog.Logger {
	if next == nil {
		next = slog.DiscardHandler
	}
	return slog.New(teller{next, tell})
}

// teller tells of warnings. Loaders add no attributes or groups to their log.
type teller struct {
	slog.Handler
	tell func(text string)
}

// Enabled implements slog.Handler.
func (t teller) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || t.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (t teller) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
			return true
		})
		t.tell(text)
	}
	if !t.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return t.Handler.Handle(ctx, r)
}
