//go:build !unix

package growth

import (
	"testing"
	"time"
)

var start = time.Now()

// used returns the time that has passed.
func used(testing.TB) time.Duration { return time.Since(start) }
