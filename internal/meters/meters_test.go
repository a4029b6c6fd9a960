package meters

import (
	"errors"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// fakeBoard counts 5 J and 1 replay between any two questions.
type fakeBoard struct {
	asked  float64
	broken error
	closed bool
}

func (b *fakeBoard) joules() (float64, error)          { b.asked++; return 5 * b.asked, nil }
func (b *fakeBoard) percent() (float64, error)         { return 0, b.broken }
func (b *fakeBoard) pcie() (rx, tx float64, err error) { return 2e9, 1e9, nil }
func (b *fakeBoard) replays() (int64, error)           { return 0, b.broken }
func (b *fakeBoard) close() error                      { b.closed = true; return nil }

func TestReportIsWhatPassedBetweenStartAndStop(t *testing.T) {
	defer func(d time.Duration) { sampleEvery = d }(sampleEvery)
	sampleEvery = time.Hour // however long the machine takes from Start to Stop
	b := &fakeBoard{broken: errors.New("not on this board")}
	m := &Meters{board: b, noHost: errors.New("no counters")}
	r := m.Start().Stop()
	expect.That(t, r.BoardJoules != nil && *r.BoardJoules == 5, "board: %v", r.BoardJoules)
	expect.That(t, r.PCIeReplays == nil && r.NotMeasured["replays"] == "not on this board", "replays: %v, %q",
		r.PCIeReplays, r.NotMeasured["replays"])
	expect.That(t, r.GPUPercent == nil && r.NotMeasured["gpu"] == "too short for a sample", "utilisation: %v, %q",
		r.GPUPercent, r.NotMeasured["gpu"])
	expect.That(t, r.HostJoules == nil && r.NotMeasured["host"] == "no counters", "host: %v, %q", r.HostJoules,
		r.NotMeasured["host"])
	expect.That(t, r.Seconds > 0, "%v s", r.Seconds)
	err := m.Close()
	expect.That(t, err == nil && b.closed, "the board is not closed: %v", err)
}

func TestSamplesAreAveraged(t *testing.T) {
	why := map[string]string{}
	var m mean
	m.add(1e9, nil)
	m.add(0, errors.New("busy"))
	m.add(3e9, nil)
	v := m.value(1e9, "pcie", why)
	expect.That(t, v != nil && *v == 2 && len(why) <= 0, "%v, %v", v, why)
	m = mean{}
	m.add(0, errors.New("busy"))
	v = m.value(1, "pcie", why)
	expect.That(t, v == nil && why["pcie"] == "busy", "%v, %v", v, why)
}

func TestWithoutADeviceTheReportSaysSo(t *testing.T) {
	m := Open("")
	r := m.Start().Stop()
	expect.That(t, r.BoardJoules == nil && r.NotMeasured["board"] == "no CUDA device is in use", "%v, %v",
		r.BoardJoules, r.NotMeasured)
	expect.OK(t, m.Close())
}
