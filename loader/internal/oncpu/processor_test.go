package oncpu

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// closer notes when it is closed, and fails.
type closer struct {
	name string
	list *[]string
}

func (c closer) Close() error {
	*c.list = append(*c.list, c.name)
	return errors.New(c.name)
}

// What a placed source took is closed from the last to the first, all of it, whatever fails.
func TestWhatWasPlacedIsClosedInReverseOrder(t *testing.T) {
	var list []string
	c := &Processor{owned: []io.Closer{closer{"a", &list}, closer{"b", &list}, closer{"c", &list}}}
	if err := c.Close(); err == nil || err.Error() != "c\nb\na" || !slices.Equal(list, []string{"c", "b", "a"}) {
		t.Errorf("%v: %v", list, err)
	}
	err := c.Close()
	expect.That(t, err == nil && len(list) == 3, "again: %v, %v", list, err)
}
