//go:build !unix

package machine

// lockLimit is unknown where there is no such limit.
func lockLimit() int64 { return 0 }

// OpenFiles is unknown where there is no such limit.
func OpenFiles() int64 { return 0 }
