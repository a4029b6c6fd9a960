package main

import (
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/meters"
)

func TestEnergyIsToldOrWhyNot(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	for want, r := range map[string]meters.Report{
		"not measured: no CUDA device is in use": {NotMeasured: map[string]string{"board": "no CUDA device is in use",
			"host": "x"}},
		"board 20.0 J, 2.000 J a batch, busy 40 %, reads 3.5 GB/s over the bus; host 8.0 J (package-0, dram)": {
			BoardJoules: value(20), GPUPercent: value(40), PCIeReadGBPerS: value(3.5), HostJoules: value(8),
			HostDomains: []string{"package-0", "dram"}},
		"host 8.0 J (package-0)": {HostJoules: value(8), HostDomains: []string{"package-0"},
			NotMeasured: map[string]string{"board": "x"}},
	} {
		got := energyText(&r, 10)
		expect.That(t, got == want, "%s; want %s", got, want)
	}
}

// A measurement begins anew after the warm-up, and has no board where a processor makes the batches.
func TestMetersBeginAnew(t *testing.T) {
	m := expect.Must(openMeters("cpu"))(t)
	m.begin()
	first := m.report()
	begun := time.Now()
	m.begin()
	again := m.report()
	expect.That(t, first.Seconds > 0 && again.Seconds <= time.Since(begun).Seconds(), "%v s, then %v s",
		first.Seconds, again.Seconds)
	expect.That(t, first.BoardJoules == nil && first.NotMeasured["board"] == "no CUDA device is in use", "a board: %+v",
		first)
	expect.OK(t, m.close())
}
