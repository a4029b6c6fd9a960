// Package expect has what tests of several packages ask: that no goroutine stays, and where two values differ. Modules
// that do this well exist; they would stand in the go.mod of everybody who imports khop.
package expect

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// NoGoroutines runs the tests of a package and exits. It fails them where a goroutine of theirs still runs ten seconds
// after the last test.
func NoGoroutines(m *testing.M) {
	status := m.Run()
	if status == 0 {
		if left := waitForGoroutines(10 * time.Second); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left after the tests:\n\n%s\n", len(left),
				strings.Join(left, "\n\n"))
			status = 1
		}
	}
	os.Exit(status)
}

// waitForGoroutines returns the stacks of the goroutines that are left, at the latest after the time given.
func waitForGoroutines(most time.Duration) []string {
	deadline := time.Now().Add(most)
	for pause := time.Microsecond; ; pause *= 2 {
		left := goroutines()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(min(pause, 50*time.Millisecond))
	}
}

// goroutines returns the stacks of all goroutines but the caller's and those that the runtime or the testing package
// keeps.
func goroutines() []string {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			stacks = stacks[:n]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	var left []string
	for _, stack := range strings.Split(strings.TrimSpace(string(stacks)), "\n\n")[1:] { // the first is the caller's
		if !kept(stack) {
			left = append(left, stack)
		}
	}
	return left
}

func kept(stack string) bool {
	for _, who := range []string{"testing.(*T).Run", "testing.(*F).Fuzz", "testing.runFuzzing",
		"testing.(*M).startAlarm", "os/signal.loop", "os/signal.signal_recv", "runtime.ensureSigM", "runtime.goexit0"} {
		if strings.Contains(stack, who) {
			return true
		}
	}
	return false
}

// OpenFiles counts the descriptors of this process; only Linux tells.
func OpenFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Diff says where got first differs from want, or nothing where they are deeply equal. A nil slice or map equals an
// empty one.
func Diff(want, got any) string { return diff("", reflect.ValueOf(want), reflect.ValueOf(got)) }

func diff(at string, want, got reflect.Value) string {
	if !want.IsValid() || !got.IsValid() || want.Type() != got.Type() {
		if !want.IsValid() && !got.IsValid() {
			return ""
		}
		return unequal(at, want, got)
	}
	switch want.Kind() {
	case reflect.Slice, reflect.Array:
		return diffLists(at, want, got)
	case reflect.Map:
		return diffMaps(at, want, got)
	case reflect.Struct:
		for i := range want.NumField() {
			if d := diff(at+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			if want.IsNil() == got.IsNil() {
				return ""
			}
			return unequal(at, want, got)
		}
		return diff(at, want.Elem(), got.Elem())
	}
	if want.Comparable() && want.Equal(got) {
		return ""
	}
	return unequal(at, want, got)
}

func diffLists(at string, want, got reflect.Value) string {
	for i := range min(want.Len(), got.Len()) {
		if d := diff(fmt.Sprintf("%s[%d]", at, i), want.Index(i), got.Index(i)); d != "" {
			return d
		}
	}
	if want.Len() != got.Len() {
		return fmt.Sprintf("%s: %d elements, want %d\n got %v\nwant %v", at, got.Len(), want.Len(), got, want)
	}
	return ""
}

func diffMaps(at string, want, got reflect.Value) string {
	for _, key := range want.MapKeys() {
		if d := diff(fmt.Sprintf("%s[%v]", at, key), want.MapIndex(key), got.MapIndex(key)); d != "" {
			return d
		}
	}
	if want.Len() != got.Len() {
		return fmt.Sprintf("%s: %d keys, want %d\n got %v\nwant %v", at, got.Len(), want.Len(), got, want)
	}
	return ""
}

func unequal(at string, want, got reflect.Value) string {
	return fmt.Sprintf("%s: got %v, want %v", at, got, want)
}
