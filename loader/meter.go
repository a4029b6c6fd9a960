package loader

import (
	"sync"

	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
)

// Meters has energy, utilisation and traffic since Loader.Meter. Values that could not be measured are nil, and
// NotMeasured says why.
//
// Board and host are measured as a whole, including other programs. Utilisation and traffic over the bus are means over
// samples, each of some milliseconds: they need a second or more.
type Meters struct {
	Seconds    float64  `json:"seconds"`
	CPUSeconds *float64 `json:"cpu_seconds"` // of this process, all threads, user and system

	BoardJoules    *float64 `json:"board_joules"`     // of the GPU board, by NVML
	GPUPercent     *float64 `json:"gpu_percent"`      // of the time in which a kernel ran
	PCIeReadGBPerS *float64 `json:"pcie_rx_gb_per_s"` // received by the board
	PCIeSentGBPerS *float64 `json:"pcie_tx_gb_per_s"` // sent by the board
	PCIeReplays    *int64   `json:"pcie_replays"`     // packets that had to be sent again

	HostJoules  *float64 `json:"host_joules"`  // of processor packages and memory, by RAPL
	HostDomains []string `json:"host_domains"` // which
	// why values are nil, by "board", "gpu", "pcie", "replays", "host", "cpu"
	NotMeasured map[string]string `json:"not_measured"`
}

// Meter begins, or begins again, to measure the cost of loading, up to Close: Stats().Meters then has it. It takes five
// samples a second, which costs little; without Meter no counter is opened. On a closed loader it does nothing.
func (l *Loader) Meter() {
	address := ""
	if d, ok := l.plan.On.(*oncuda.Processor); ok {
		address = d.BusAddress()
	}
	l.metering.begin(address)
}

// openMeters finds the meters; tests bring their own.
var openMeters = meters.Open

// metering is what a loader measures itself with.
type metering struct {
	mu     sync.Mutex
	open   *meters.Meters      // nil until asked for
	now    *meters.Measurement // nil unless it runs
	last   *Meters             // when the loader was closed
	closed bool
}

func (m *metering) begin(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if m.open == nil {
		m.open = openMeters(address)
	}
	if m.now != nil {
		m.now.Stop()
	}
	m.now = m.open.Start()
}

func (m *metering) report() *Meters {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now == nil {
		return m.last
	}
	r := Meters(m.now.Report())
	return &r
}

// close ends the measurement, which stays readable.
func (m *metering) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.now != nil {
		r := Meters(m.now.Stop())
		m.last, m.now = &r, nil
	}
	if m.open == nil {
		return nil
	}
	open := m.open
	m.open = nil
	return open.Close()
}
