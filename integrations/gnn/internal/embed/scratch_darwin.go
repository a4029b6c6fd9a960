package embed

import "os"

// reserve makes a file n bytes long.
func reserve(f *os.File, n int64) error { return f.Truncate(n) }
