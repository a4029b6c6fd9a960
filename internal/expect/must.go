package expect

import "testing"

// OK ends a test where one of errs is an error.
func OK(t testing.TB, errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
}

// Must ends a test where a call returned an error, and otherwise returns what else it returned:
//
//	d := expect.Must(formats.Open(dir))(t)
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Must2 is Must for two results beside the error.
func Must2[T, U any](v T, u U, err error) func(testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		OK(t, err)
		return v, u
	}
}
