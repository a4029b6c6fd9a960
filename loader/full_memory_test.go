package loader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
)

// empty has no memory to give.
type empty struct{}

var errEmpty = errors.New("there is none")

func (empty) Take(int64) ([]byte, error) { return nil, errEmpty }
func (empty) Give([]byte) error          { return nil }

// Slots are given memory side by side. Where there is none for several of them, there is one error.
func TestMemoryThatNoSlotHasIsMissedOnce(t *testing.T) {
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Workers: 4, Tuning: loader.TuningOptions{Prefetch: 4},
		Device: loader.DeviceOptions{Name: "cpu"}, Hooks: loader.Hooks{RowMemory: empty{}}}
	for range 20 {
		_, err := loader.New(graphs.Plain(t, 300, 5), opt)
		expect.Ensure(t, errors.Is(err, errEmpty) && strings.Count(err.Error(), errEmpty.Error()) == 1, "%v", err)
	}
}
