package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/device"
)

var sharedAssemblyKernels device.PerDevice[*assemblyKernels]

// launches has all that the launches of a batch depend on.
type launches struct {
	device   device.Address
	host     *uint8
	size     int
	capacity int // how often it changed
}

// deviceLaunch is the launches of one stage. It holds the most runs and words that its kernels have to do (batch.cuh).
type deviceLaunch struct {
	stream      *device.Stream
	step        deviceStep
	kernels     *assemblyKernels
	own         device.Address // of what the placer sends
	runs, words int64
	reached     int64 // words of the stage before, that the reacher lists
	hop         int
	blocks      int // that a grid may have
}

// grid returns blocks for a number of warps.
func (l *deviceLaunch) grid(warps int64) int {
	blocks := (warps + deviceBlockWarps - 1) / deviceBlockWarps
	return int(max(min(blocks, int64(l.blocks)), 1))
}

func (l *deviceLaunch) block() int { return deviceThreads }

// measure launches what comes before kernels that call count_each, unless these have no need of it.
func (l *deviceLaunch) measure() error {
	if err := l.kernels.assemblyMeasure.Launch(l.stream, l.grid(l.runs), l.block(), 0, l.step); err != nil {
		return err
	}
	return l.kernels.assemblyHubs.Launch(l.stream, l.grid(l.runs), l.block(), 0, l.step)
}

// one launches a kernel that is one block.
func (l *deviceLaunch) one(k device.Launcher[deviceStep]) error {
	return k.Launch(l.stream, 1, deviceSpine, 0, l.step)
}

// capture makes the graph of a batch's launches, which are dozens, unless there is one for buffers as they are. It is
// captured on a stream of its own, since others may use the worker's meanwhile.
func (w *deviceAssembly) capture() (err error) {
	now := launches{w.device.Address(), &w.description[0], len(w.description), w.capacity.changes}
	if w.graph != nil && w.captured == now {
		return nil
	}
	if err := w.dropGraph(); err != nil {
		return err
	}
	stream, err := w.env.Device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := stream.BeginCapture(); err != nil {
		return err
	}
	launched := w.launch(stream)
	w.graph, err = stream.EndCapture()
	w.captured = now
	if launched != nil {
		err = errors.Join(launched, err, w.dropGraph())
	}
	return err
}

func (w *deviceAssembly) dropGraph() (err error) {
	if w.graph != nil {
		err = w.graph.Close()
	}
	w.graph = nil
	return err
}

// launch puts a batch on a stream. Grids are as large as the capacities can keep busy.
func (w *deviceAssembly) launch(stream *device.Stream) error {
	if err := stream.CopyToDevice(w.device.Address(), w.description); err != nil {
		return err
	}
	l := deviceLaunch{stream: stream, step: deviceStep{batch: w.at(w.layout.batch)}, kernels: w.kernels,
		own: w.at(w.layout.own), blocks: w.blocks, words: roundUp32(w.seedRoom)/32 + int64(len(w.schema.Nodes))}
	if err := w.launchExclude(&l); err != nil {
		return err
	}
	if err := w.kernels.assemblySeed.Launch(stream, l.grid(l.words), l.block(), 0, l.step); err != nil {
		return err
	}
	if err := w.launchLocal(&l); err != nil {
		return err
	}
	for h, kind := range w.stages {
		l.step.stage, l.runs, l.words, l.reached = int64(h+1), 0, w.capacity.picks(h)/32, l.words
		l.hop = w.hopOf[h]
		if kind != stagePlace {
			l.runs = w.stageDsts(h) / 32
		}
		if err := w.launchStage(&l, kind); err != nil {
			return err
		}
	}
	return stream.CopyToHost(w.description[:w.layout.results], w.device.Address())
}

func (w *deviceAssembly) launchStage(l *deviceLaunch, kind stageKind) error {
	count, pick := w.induceCount, w.inducePick
	switch kind {
	case stagePlace:
		if err := w.placer.place(l); err != nil {
			return err
		}
		if err := w.kernels.assemblySeed.Launch(l.stream, l.grid(l.words), l.block(), 0, l.step); err != nil {
			return err
		}
		return w.launchLocal(l)
	case stageHop:
		count, pick = w.picker.count, w.picker.pick
	case stageReach:
		count, pick = w.reacher.count, w.reacher.pick
	}
	if err := count(l); err != nil {
		return err
	}
	if err := l.one(w.kernels.assemblyAdmit); err != nil {
		return err
	}
	if err := pick(l); err != nil || kind == stageInduce {
		return err
	}
	if kind == stageReach {
		return l.one(w.kernels.assemblyLists)
	}
	return w.launchLocal(l)
}

// launchLocal gives the picks of a stage local ids.
func (w *deviceAssembly) launchLocal(l *deviceLaunch) error {
	k, grid, appends := w.kernels, l.grid(l.words), w.kernels.assemblyAppend
	if w.apart() {
		appends = k.assemblyAppendTrees
	}
	if err := k.assemblyFlag.Launch(l.stream, grid, l.block(), 0, l.step); err != nil {
		return err
	}
	if err := l.one(k.assemblyLists); err != nil {
		return err
	}
	if err := appends.Launch(l.stream, grid, l.block(), 0, l.step); err != nil {
		return err
	}
	return k.assemblyRelabel.Launch(l.stream, grid, l.block(), 0, l.step)
}
