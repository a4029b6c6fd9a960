package expect

import (
	"strings"
	"testing"
	"time"
)

func TestDiffNamesThePlace(t *testing.T) {
	type inner struct {
		names []string
		by    map[string]int
	}
	a := []inner{{names: []string{"x"}, by: map[string]int{"k": 1}}}
	for _, c := range []struct {
		want, got any
		says      string
	}{
		{a, []inner{{names: []string{"x"}, by: map[string]int{"k": 1}}}, ""},
		{[]string(nil), []string{}, ""},
		{nil, nil, ""},
		{nil, 1, "got 1"},
		{int32(1), int64(1), "got 1"},
		{a, []inner{{names: []string{"y"}, by: map[string]int{"k": 1}}}, "[0].names[0]: got y, want x"},
		{a, []inner{{names: []string{"x"}, by: map[string]int{"k": 2}}}, "[0].by[k]: got 2, want 1"},
		{a, []inner{{names: []string{"x"}, by: map[string]int{"k": 1, "l": 0}}}, "2 keys, want 1"},
		{map[string]int{"k": 1}, map[string]int{"l": 1}, "[k]"},
		{[]string{"x", "y"}, []string{"x"}, "1 elements, want 2"},
		{&a, (*[]inner)(nil), "want"},
		{&a, &[]inner{}, "0 elements, want 1"},
	} {
		d := Diff(c.want, c.got)
		if c.says == "" && d != "" || !strings.Contains(d, c.says) {
			t.Errorf("%v, %v: %q does not say %q", c.want, c.got, d, c.says)
		}
	}
}

func TestAGoroutineThatStaysIsSeen(t *testing.T) {
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		<-stop
	}()
	left := waitForGoroutines(time.Millisecond)
	if len(left) != 1 || !strings.Contains(left[0], "TestAGoroutineThatStaysIsSeen") {
		t.Errorf("%d stacks: %s", len(left), left)
	}
	close(stop)
	<-gone
	if left := waitForGoroutines(time.Minute); len(left) > 0 {
		t.Errorf("they stay: %s", left)
	}
}
