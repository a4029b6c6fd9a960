//go:build cuda && cgo && linux && (amd64 || arm64) && !libkhop

package meters

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlBoard is a board by NVML, whose library is loaded at run time.
type nvmlBoard struct {
	library nvml.Interface
	device  nvml.Device
}

// OpenOn is Open with another NVML than the driver's, such as the mock of go-nvml.
func OpenOn(library nvml.Interface, address string) *Meters {
	m := &Meters{}
	m.board, m.noBoard = openNVML(library, address)
	m.host, m.noHost = openHost()
	return m
}

func openBoard(address string) (board, error) { return openNVML(nvml.New(), address) }

func openNVML(library nvml.Interface, address string) (board, error) {
	if r := library.Init(); r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, fmt.Errorf("board energy: libnvidia-ml.so.1, which comes with the driver, cannot be loaded")
	} else if r != nvml.SUCCESS {
		return nil, fmt.Errorf("board energy: NVML does not start: %s", library.ErrorString(r))
	}
	device, r := library.DeviceGetHandleByPciBusId(address)
	if r != nvml.SUCCESS {
		err := fmt.Errorf("board energy: NVML knows no device at %s: %s", address, library.ErrorString(r))
		library.Shutdown()
		return nil, err
	}
	return &nvmlBoard{library, device}, nil
}

func (b *nvmlBoard) failure(what string, r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: NVML: %s", what, b.library.ErrorString(r))
}

func (b *nvmlBoard) joules() (float64, error) {
	mJ, r := b.device.GetTotalEnergyConsumption()
	return float64(mJ) / 1e3, b.failure("board energy", r)
}

func (b *nvmlBoard) percent() (float64, error) {
	u, r := b.device.GetUtilizationRates()
	return float64(u.Gpu), b.failure("utilisation", r)
}

func (b *nvmlBoard) pcie() (rx, tx float64, err error) {
	const unit = 1024 // KB/s, of 1,024 bytes
	received, r := b.device.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES)
	if err := b.failure("PCIe throughput", r); err != nil {
		return 0, 0, err
	}
	sent, r := b.device.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
	return float64(received) * unit, float64(sent) * unit, b.failure("PCIe throughput", r)
}

func (b *nvmlBoard) replays() (int64, error) {
	n, r := b.device.GetPcieReplayCounter()
	return int64(n), b.failure("PCIe replays", r)
}

func (b *nvmlBoard) close() error { return b.failure("end of NVML", b.library.Shutdown()) }
