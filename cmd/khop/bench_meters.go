package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/internal/meters"
)

// benchMeters measure what loading costs, from begin on.
type benchMeters struct {
	*meters.Meters
	now *meters.Measurement // nil before begin
}

// openMeters finds the meters of the host, and of the board that a device is ("cuda:0"; "cpu" for none).
func openMeters(on string) (*benchMeters, error) {
	address, err := meters.BusAddress(on)
	if err != nil {
		return nil, err
	}
	return &benchMeters{Meters: meters.Open(address)}, nil
}

// begin begins, or begins again, to measure.
func (m *benchMeters) begin() {
	if m.now != nil {
		m.now.Stop()
	}
	m.now = m.Start()
}

// report returns what loading has cost since begin.
func (m *benchMeters) report() meters.Report { return m.now.Report() }

func (m *benchMeters) close() error {
	if m.now != nil {
		m.now.Stop()
	}
	return m.Close()
}

// energyText says what n batches cost, for people.
func energyText(r *meters.Report, n int) string {
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
