package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a size on the command line: 4GB, 1.5GiB, 500MB or a number of bytes.
type byteSize int64

var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"tib", 1 << 40}, {"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10}, {"tb", 1e12}, {"gb", 1e9}, {"mb", 1e6},
	{"kb", 1e3}, {"b", 1}, {"", 1},
}

// UnmarshalText reads a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	s := strings.ToLower(strings.ReplaceAll(string(text), " ", ""))
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || !(f >= 0) || f*u.bytes >= math.MaxInt64 {
			break
		}
		*b = byteSize(f * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 4GB, 1.5GiB or 500MB", text)
}
