package machine

import "github.com/dustin/go-humanize"

// Bytes writes a size, which must not be negative, in both units that people use: "25.8 GB (24.0 GiB)".
func Bytes(n int64) string {
	if n < 1000 {
		return humanize.Bytes(uint64(n))
	}
	return humanize.BytesN(uint64(n), 3) + " (" + humanize.IBytesN(uint64(n), 3) + ")"
}
