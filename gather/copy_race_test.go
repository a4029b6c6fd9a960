//go:build race

package gather

// raceEnabled shortens tests under the race detector.
const raceEnabled = true
