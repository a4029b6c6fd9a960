package expect

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// heard is a test that notes its messages.
type heard struct {
	testing.TB
	said  string
	fatal bool
}

func (h *heard) Helper()                           {}
func (h *heard) Errorf(format string, args ...any) { h.said = fmt.Sprintf(format, args...) }
func (h *heard) Fatalf(format string, args ...any) { h.Errorf(format, args...); h.fatal = true }

func TestChecksSayWhatIsWrong(t *testing.T) {
	lost := fmt.Errorf("a.npy: %w", os.ErrNotExist)
	for want, check := range map[string]func(t testing.TB){
		"2 rows":                              func(t testing.TB) { That(t, false, "%d rows", 2) },
		"3 rows":                              func(t testing.TB) { Ensure(t, false, "%d rows", 3) },
		"[1]: got 3, want 2":                  func(t testing.TB) { Same(t, []int{1, 3}, []int{1, 2}) },
		"epoch 5: [0]: got 1, want 2":         func(t testing.TB) { Same(t, []int{1}, []int{2}, "epoch %d", 5) },
		"7: " + lost.Error() + ", want <nil>": func(t testing.TB) { Is(t, lost, nil, 7) },
		"<nil>, want " + lost.Error():         func(t testing.TB) { Is(t, nil, lost) },
		`50% of it: file does not exist, want file does not exist that says "a.npy"`: func(t testing.TB) {
			Says(t, os.ErrNotExist, os.ErrNotExist, "a.npy", "50% of it")
		},
		`a.npy: file does not exist, want EOF that says "a.npy"`: func(t testing.TB) {
			Says(t, lost, errors.New("EOF"), "a.npy")
		},
		"": func(t testing.TB) {
			That(t, true, "wrong")
			Ensure(t, true, "wrong")
			Same(t, []int(nil), []int{})
			Is(t, lost, os.ErrNotExist)
			Is(t, nil, nil)
			Says(t, nil, nil, "anything")
			Says(t, lost, os.ErrNotExist, "a.npy")
		},
	} {
		h := &heard{}
		if check(h); h.said != want || h.fatal != (want == "3 rows") {
			t.Errorf("it says %q, want %q; fatal: %t", h.said, want, h.fatal)
		}
	}
	if err := Err(os.Open("")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error of a call is %v", err)
	}
}
