package main

import (
	"fmt"
	"math"
	"strconv"
)

// positive is a number from 1 to 2^31 - 1.
type positive int

// UnmarshalText reads the number.
func (p *positive) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 to %d", text, math.MaxInt32)
	}
	*p = positive(n)
	return nil
}
