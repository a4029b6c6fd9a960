package tier

import (
	"context"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestFetchesComeOneAfterTheOther(t *testing.T) {
	var l Later
	var got []int
	for i := range 8 {
		l.Fetch(t.Context(), func(context.Context) error {
			got = append(got, i) // the race detector sees two at a time
			return nil
		})
	}
	_, err := l.Finish(t.Context(), nil)
	expect.OK(t, err)
	expect.That(t, l.idle() && len(got) == 8 && got[0] == 0 && got[7] == 7, "fetched %v", got)
}

func TestNothingIsFetchedBehindAFailure(t *testing.T) {
	var l Later
	failure, called := errors.New("no rows"), false
	l.Fetch(t.Context(), func(context.Context) error { return failure })
	l.Fetch(t.Context(), func(context.Context) error {
		called = true
		return nil
	})
	_, err := l.Finish(t.Context(), nil)
	expect.That(t, errors.Is(err, failure) && !called, "finish says %v; called: %v", err, called)
}

// The fetch that is under way need not be the first of the batch.
func TestCancelEndsAllThatWasBegun(t *testing.T) {
	var l Later
	l.Fetch(t.Context(), func(context.Context) error { return nil })
	began := make(chan bool)
	l.Fetch(t.Context(), func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	<-began
	l.Cancel()
	expect.That(t, l.idle(), "something is under way")
}
