//go:build cuda && cgo && linux && (amd64 || arm64) && !libkhop

package meters

import (
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

const address = "0000:19:00.0"

// library is NVML with one device.
func library(device nvml.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:     func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc: func() nvml.Return { return nvml.SUCCESS },
		ErrorStringFunc: func(r nvml.Return) string {
			return map[nvml.Return]string{3: "Not Supported", 6: "Not Found", 9: "Driver Not Loaded"}[r]
		},
		DeviceGetHandleByPciBusIdFunc: func(at string) (nvml.Device, nvml.Return) {
			if at != address {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return device, nvml.SUCCESS
		},
	}
}

func TestBoardIsReadThroughNVML(t *testing.T) {
	energy := uint64(7_000)
	device := &mock.Device{
		GetTotalEnergyConsumptionFunc: func() (uint64, nvml.Return) { energy += 1_500; return energy, nvml.SUCCESS },
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: 40},
				nvml.SUCCESS
		},
		GetPcieThroughputFunc: func(c nvml.PcieUtilCounter) (uint32, nvml.Return) {
			if c == nvml.PCIE_UTIL_RX_BYTES {
				return 1_000_000, nvml.SUCCESS
			}
			return 2_000, nvml.SUCCESS
		},
		GetPcieReplayCounterFunc: func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
	}
	lib := library(device)
	b := expect.Must(openNVML(lib, address))(t)
	rx, tx, err := b.pcie()
	expect.That(t, rx == 1_024_000_000 && tx == 2_048_000 && err == nil, "PCIe: %v, %v, %v", rx, tx, err)
	if p, err := b.percent(); p != 40 || err != nil {
		t.Errorf("utilisation: %v, %v", p, err)
	}
	m := &Meters{board: b, noHost: errors.New("none")}
	r := m.Start().Stop()
	expect.That(t, r.BoardJoules != nil && *r.BoardJoules == 1.5, "energy: %v", r.BoardJoules)
	if r.PCIeReplays != nil || !strings.Contains(r.NotMeasured["replays"], "PCIe replays: NVML: Not Supported") {
		t.Errorf("replays: %v, %q", r.PCIeReplays, r.NotMeasured["replays"])
	}
	if err := m.Close(); err != nil || len(lib.ShutdownCalls()) != 1 {
		t.Errorf("NVML is shut down %d times, %v", len(lib.ShutdownCalls()), err)
	}
}

func TestNVMLThatDoesNotAnswerSaysWhy(t *testing.T) {
	missing := library(nil)
	missing.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	asleep := library(nil)
	asleep.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	other := library(nil)
	for want, lib := range map[string]*mock.Interface{
		"libnvidia-ml.so.1, which comes with the driver, cannot be loaded": missing,
		"NVML does not start: Driver Not Loaded":                           asleep,
		"NVML knows no device at 0000:01:00.0: Not Found":                  other,
	} {
		b, err := openNVML(lib, "0000:01:00.0")
		expect.That(t, b == nil && err != nil && strings.Contains(err.Error(), want), "%v, %v; want %q", b, err, want)
	}
	expect.That(t, len(other.ShutdownCalls()) == 1, "NVML stays open after a failure")
}

// TestMetersWorkWithoutNVML runs what a machine without a driver runs.
func TestMetersWorkWithoutNVML(t *testing.T) {
	m := Open(address)
	r := m.Start().Stop()
	expect.That(t, r.BoardJoules != nil || strings.Contains(r.NotMeasured["board"], "board energy: "), "%v",
		r.NotMeasured)
	expect.OK(t, m.Close())
}

// The board that is measured is that of the device which makes the batches.
func TestTheBusAddressOfADevice(t *testing.T) {
	cudatest.Open(t)
	at, err := BusAddress("cuda:0")
	expect.That(t, err == nil && strings.Count(at, ":") == 2, "%q, %v", at, err)
	_, err = BusAddress("cuda:99")
	expect.That(t, err != nil, "a device that is not there has a board")
	cudatest.Report(t)
}
