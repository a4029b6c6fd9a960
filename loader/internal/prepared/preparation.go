package prepared

import (
	"fmt"
	"slices"
	"strings"
)

// Preparation says what a loader computes for each block in its pipeline: loader.Preparation.
type Preparation uint8

// Those of package loader by these names.
const (
	Transpose Preparation = 1 << iota
	GCNNorm
	Loops
	preparations
)

// Valid reports whether all bits are preparations.
func (p Preparation) Valid() bool { return p < preparations }

// preparationNames are the names of the bits.
var preparationNames = []string{"transpose", "gcn-norm", "loops"}

// UnmarshalText reads names with commas: "transpose", "gcn-norm", "loops".
func (p *Preparation) UnmarshalText(text []byte) error {
	*p = 0
	for _, name := range strings.Split(string(text), ",") {
		i := slices.Index(preparationNames, strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("%q is not transpose, gcn-norm or loops", name)
		}
		*p |= 1 << i
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Preparation) MarshalText() (text []byte, err error) {
	var names []string
	for i, name := range preparationNames {
		if p>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return []byte(strings.Join(names, ",")), nil
}
