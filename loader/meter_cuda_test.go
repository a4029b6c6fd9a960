//go:build cuda && !libkhop

package loader_test

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/loader"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
)

// TestBoardsEnergyIsInTheStatistics: of the board that the loader's device is, from when it was asked for.
func TestBoardsEnergyIsInTheStatistics(t *testing.T) {
	cudatest.Open(t)
	energy, busy := uint64(70_000), nvml.ERROR_NOT_SUPPORTED
	board := &mock.Device{
		GetTotalEnergyConsumptionFunc: func() (uint64, nvml.Return) { energy += 2_500; return energy, nvml.SUCCESS },
		GetUtilizationRatesFunc:       func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, busy },
		GetPcieThroughputFunc:         func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 1000, nvml.SUCCESS },
		GetPcieReplayCounterFunc:      func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
	}
	var asked []string
	library := &mock.Interface{
		InitFunc:        func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:    func() nvml.Return { return nvml.SUCCESS },
		ErrorStringFunc: func(nvml.Return) string { return "Not Supported" },
		DeviceGetHandleByPciBusIdFunc: func(address string) (nvml.Device, nvml.Return) {
			asked = append(asked, address)
			return board, nvml.SUCCESS
		},
	}
	loader.MeterWith(t, func(address string) *meters.Meters { return meters.OpenOn(library, address) })
	opt := meteredOptions()
	opt.Device.Name = "cuda:0"
	l := open(t, graphs.Plain(t, 200, 5), opt)
	digests(t, l.Epoch(background, 0))
	if s := l.Stats(); s.Meters != nil || len(library.InitCalls()) != 0 {
		t.Fatalf("nobody asked: %+v, NVML started %d times", s.Meters, len(library.InitCalls()))
	}
	l.Meter()
	for i, want := range []float64{2.5, 5} { // each question to the mock costs as much
		m := l.Stats().Meters
		if m.BoardJoules == nil || *m.BoardJoules != want || m.PCIeReplays != nil ||
			m.NotMeasured["replays"] != "PCIe replays: NVML: Not Supported" {
			t.Errorf("report %d: %+v, %v", i, m, m.NotMeasured)
		}
	}
	expect.That(t, len(asked) == 1 && strings.Count(asked[0], ":") == 2, "NVML was asked for boards at %q", asked)
	if err := l.Close(); err != nil || len(library.ShutdownCalls()) != 1 {
		t.Errorf("NVML was shut down %d times, %v", len(library.ShutdownCalls()), err)
	}
	m := l.Stats().Meters
	expect.That(t, m != nil && *m.BoardJoules == 7.5, "after Close: %+v", m)
	cudatest.Report(t)
}
