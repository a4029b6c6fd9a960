package expect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// That fails a test where ok is false, and goes on. The message says what is wrong, as t.Errorf has it.
func That(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Ensure is That, and ends the test.
func Ensure(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// Same fails a test where Diff tells got from want, and goes on. Of, if anything, says what they are: one value, or a
// format and its arguments.
func Same(t testing.TB, got, want any, of ...any) {
	if d := Diff(want, got); d != "" {
		t.Helper()
		t.Errorf("%s%s", subject(of), d)
	}
}

// Is fails a test where an error is not want, as errors.Is has it, and goes on; nil stands for no error. Of says what
// the error is of, as in Same.
func Is(t testing.TB, err, want error, of ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s%v, want %v", subject(of), err, want)
	}
}

// Says is Is for an error that has a text, too.
func Says(t testing.TB, err, want error, text string, of ...any) {
	if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), text) {
		t.Helper()
		t.Errorf("%s%v, want %v that says %q", subject(of), err, want, text)
	}
}

// Err returns the error of a call that returns something else, too.
func Err[T any](_ T, err error) error { return err }

// subject puts what a check is of in front of what it says.
func subject(of []any) string {
	if len(of) == 0 {
		return ""
	}
	if format, ok := of[0].(string); ok && len(of) > 1 {
		return fmt.Sprintf(format, of[1:]...) + ": "
	}
	return fmt.Sprint(of...) + ": "
}
