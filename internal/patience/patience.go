// Package patience says how long clients of stores wait. Tests of any package make it shorter.
package patience

import "time"

var (
	// FirstPause is what a new client waits before the second attempt. It doubles.
	FirstPause = 200 * time.Millisecond
	// Stall is for how long an answer may bring no byte.
	Stall = 20 * time.Second
)
