package presamplers

import (
	"errors"
	"testing"

	"github.com/khop-gnn/khop/sampling"
)

// closing is a prepared sampler that notes how often it is closed, and fails.
type closing struct {
	sampling.Sampler
	times *int
}

var errClosing = errors.New("tables")

func (c closing) Close() error {
	*c.times++
	return errClosing
}

// What all workers share is closed once.
func TestWhatWorkersShareIsClosedOnce(t *testing.T) {
	times := 0
	k := &Kit{prepared: closing{times: &times}}
	k.shared = true
	if err := k.CloseShared(); !errors.Is(err, errClosing) || times != 1 || k.shared || k.CloseShared() != nil {
		t.Errorf("closed %d times: %v", times, err)
	}
}
