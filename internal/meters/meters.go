package meters

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/machine"
)

// Report says what the work between Start and Stop cost. A figure that could not be measured is nil.
type Report struct {
	Seconds    float64  `json:"seconds"`
	CPUSeconds *float64 `json:"cpu_seconds"` // of this process, all threads, user and system

	BoardJoules    *float64 `json:"board_joules"`     // of the GPU board
	GPUPercent     *float64 `json:"gpu_percent"`      // of the time in which a kernel ran
	PCIeReadGBPerS *float64 `json:"pcie_rx_gb_per_s"` // received by the board
	PCIeSentGBPerS *float64 `json:"pcie_tx_gb_per_s"` // sent by the board
	PCIeReplays    *int64   `json:"pcie_replays"`     // packets that had to be sent again

	HostJoules  *float64 `json:"host_joules"`  // of processor packages and memory
	HostDomains []string `json:"host_domains"` // which
	// why a value is nil: by "board", "gpu", "pcie", "replays", "host", "cpu"
	NotMeasured map[string]string `json:"not_measured"`
}

// A board reads the meters of a GPU board. Each call may fail by itself, because boards count different things.
type board interface {
	joules() (float64, error)          // since the driver was loaded
	percent() (float64, error)         // of the last moments
	pcie() (rx, tx float64, err error) // bytes a second of the last moments
	replays() (int64, error)           // since the driver was loaded
	close() error
}

// sampleEvery is the time between samples. NVML needs 20 ms for the PCIe throughput of each
// direction. A variable for tests only.
var sampleEvery = 200 * time.Millisecond

// Meters are those of one board and of the host. One measurement runs at a time.
type Meters struct {
	board   board
	noBoard error
	host    *host
	noHost  error
}

// Open finds the meters. address is that of the GPU on the PCI bus, such as "0000:01:00.0"; empty for none. It never
// fails: the reports say what could not be measured. Close it.
func Open(address string) *Meters {
	m := &Meters{}
	if address == "" {
		m.noBoard = errors.New("no CUDA device is in use")
	} else {
		m.board, m.noBoard = openBoard(address)
	}
	m.host, m.noHost = openHost()
	return m
}

// BusAddress returns where a device is on the PCI bus, as Open takes it; empty for "cpu".
func BusAddress(on string) (string, error) {
	ordinal := 0
	if _, err := fmt.Sscanf(on, "cuda:%d", &ordinal); err != nil {
		return "", nil
	}
	d, err := device.Open(ordinal)
	if err != nil {
		return "", err
	}
	return machine.FindPCI(d.PCI()).Address, d.Close()
}

// Close closes the meters.
func (m *Meters) Close() error {
	if m.board == nil {
		return nil
	}
	return m.board.close()
}

// A Measurement runs from Start to Stop. It owns a goroutine meanwhile. It is safe for concurrent use.
type Measurement struct {
	m     *Meters
	start time.Time
	cpu   reading[float64]
	board reading[float64]
	again reading[int64]

	end  chan struct{}
	done sync.WaitGroup

	mu           sync.Mutex // guards the following
	busy, rx, tx mean
	host         reading[float64]
	hostSince    hostState
}

// A reading is a counter's value, or why there is none.
type reading[T float64 | int64] struct {
	value T
	err   error
}

// cpuSeconds returns the processor time of the process so far.
func cpuSeconds() (float64, error) {
	took, err := machine.ProcessorTime()
	return took.Seconds(), err
}

func read[T float64 | int64](value T, err error) reading[T] { return reading[T]{value, err} }

// until returns the difference to a later reading; nil, and the reason in why, where one of them failed.
func (r reading[T]) until(later reading[T], name string, why map[string]string) *T {
	for _, err := range []error{r.err, later.err} {
		if err != nil {
			why[name] = err.Error()
			return nil
		}
	}
	d := later.value - r.value
	return &d
}

type mean struct {
	sum float64
	n   int
	err error
}

func (m *mean) add(v float64, err error) {
	if err != nil {
		m.err = err
		return
	}
	m.sum += v
	m.n++
}

// value returns the mean in units of scale; nil, and the reason in why, without a sample.
func (m *mean) value(scale float64, name string, why map[string]string) *float64 {
	if m.n == 0 {
		why[name] = "too short for a sample"
		if m.err != nil {
			why[name] = m.err.Error()
		}
		return nil
	}
	v := m.sum / float64(m.n) / scale
	return &v
}

// Start begins a measurement. Stop ends it.
func (m *Meters) Start() *Measurement {
	s := &Measurement{m: m, end: make(chan struct{})}
	if m.host != nil {
		s.hostSince, s.host.err = m.host.read()
	}
	s.done.Add(1)
	go s.sample()
	s.board, s.again = m.boardNow()
	s.cpu = read(cpuSeconds())
	s.start = time.Now()
	return s
}

// Stop ends the measurement and returns what was measured. A second Stop is not allowed.
func (s *Measurement) Stop() Report {
	r := s.Report()
	close(s.end)
	s.done.Wait()
	return r
}

// Report returns what was measured so far.
func (s *Measurement) Report() Report {
	took := time.Since(s.start)
	cpu := read(cpuSeconds())
	energy, again := s.m.boardNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceHost()

	why := map[string]string{}
	r := Report{Seconds: took.Seconds(), NotMeasured: why}
	r.CPUSeconds = s.cpu.until(cpu, "cpu", why)
	if s.m.board == nil {
		why["board"] = s.m.noBoard.Error()
	} else {
		r.BoardJoules = s.board.until(energy, "board", why)
		r.PCIeReplays = s.again.until(again, "replays", why)
		r.GPUPercent = s.busy.value(1, "gpu", why)
		r.PCIeReadGBPerS, r.PCIeSentGBPerS = s.rx.value(1e9, "pcie", why), s.tx.value(1e9, "pcie", why)
	}
	switch {
	case s.m.host == nil:
		why["host"] = s.m.noHost.Error()
	case s.host.err != nil:
		why["host"] = s.host.err.Error()
	default:
		joules := s.host.value
		r.HostJoules, r.HostDomains = &joules, s.m.host.names()
	}
	return r
}

func (m *Meters) boardNow() (energy reading[float64], again reading[int64]) {
	if m.board == nil {
		return energy, again
	}
	return read(m.board.joules()), read(m.board.replays())
}

// advanceHost adds what the host has used since the last call.
func (s *Measurement) advanceHost() {
	if s.m.host != nil && s.host.err == nil {
		var more float64
		more, s.host.err = s.m.host.advance(s.hostSince)
		s.host.value += more
	}
}

// sample reads the meters that cover only the last moments, and the host's counters, which wrap after minutes.
func (s *Measurement) sample() {
	defer s.done.Done()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.end:
			return
		case <-tick.C:
		}
		s.look()
	}
}

func (s *Measurement) look() {
	var busy, rx, tx reading[float64]
	b := s.m.board
	if b != nil { // it takes its time: not under the lock
		busy = read(b.percent())
		rx.value, tx.value, rx.err = b.pcie()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceHost()
	if b != nil {
		s.busy.add(busy.value, busy.err)
		s.rx.add(rx.value, rx.err)
		s.tx.add(tx.value, rx.err)
	}
}
