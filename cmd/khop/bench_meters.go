package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/loader"
)

// energyText says what n batches cost, for people.
func energyText(r *loader.Meters, n int) string {
	var parts []string
	if r.BoardJoules != nil {
		text := fmt.Sprintf("board %.1f J, %.3f J a batch", *r.BoardJoules, *r.BoardJoules/float64(n))
		if r.GPUPercent != nil {
			text += fmt.Sprintf(", busy %.0f %%", *r.GPUPercent)
		}
		if r.PCIeReadGBPerS != nil {
			text += fmt.Sprintf(", reads %.1f GB/s over the bus", *r.PCIeReadGBPerS)
		}
		parts = append(parts, text)
	}
	if r.HostJoules != nil {
		parts = append(parts, fmt.Sprintf("host %.1f J (%s)", *r.HostJoules, strings.Join(r.HostDomains, ", ")))
	}
	if len(parts) == 0 {
		return "not measured: " + cmp.Or(r.NotMeasured["board"], r.NotMeasured["host"])
	}
	return strings.Join(parts, "; ")
}
