package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/device"
)

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
	blocks      int   // that a grid may have
	err         error // of the first launch that failed; none follows
}

// grid returns blocks for a number of warps.
func (l *deviceLaunch) grid(warps int64) int {
	blocks := (warps + deviceBlockWarps - 1) / deviceBlockWarps
	return int(max(min(blocks, int64(l.blocks)), 1))
}

// put launches a kernel over a number of warps.
func put[S any](l *deviceLaunch, k device.Launcher[S], warps int64, step S) {
	if l.err == nil {
		l.err = k.Launch(l.stream, l.grid(warps), deviceThreads, 0, step)
	}
}

// putOne launches a kernel that is one block.
func putOne[S any](l *deviceLaunch, k device.Launcher[S], step S) {
	if l.err == nil {
		l.err = k.Launch(l.stream, 1, deviceSpine, 0, step)
	}
}

// measure launches what comes before kernels that call count_each, unless these have no need of it.
func (l *deviceLaunch) measure() {
	put(l, l.kernels.assemblyMeasure, l.runs, l.step)
	put(l, l.kernels.assemblyHubs, l.runs, l.step)
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
	w.launchExclude(&l)
	put(&l, w.kernels.assemblySeed, l.words, l.step)
	w.launchLocal(&l)
	for h, kind := range w.stages {
		l.step.stage, l.runs, l.words, l.reached = int64(h+1), 0, w.capacity.picks(h)/32, l.words
		l.hop = w.hopOf[h]
		if kind != stagePlace {
			l.runs = w.stageDsts(h) / 32
		}
		w.launchStage(&l, kind)
	}
	if l.err != nil {
		return l.err
	}
	return stream.CopyToHost(w.description[:w.layout.results], w.device.Address())
}

func (w *deviceAssembly) launchStage(l *deviceLaunch, kind stageKind) {
	count, pick := w.induceCount, w.inducePick
	switch kind {
	case stagePlace:
		w.placer.place(l)
		put(l, w.kernels.assemblySeed, l.words, l.step)
		w.launchLocal(l)
		return
	case stageHop:
		count, pick = w.picker.count, w.picker.pick
	case stageReach:
		count, pick = w.reacher.count, w.reacher.pick
	}
	count(l)
	putOne(l, w.kernels.assemblyAdmit, l.step)
	pick(l)
	switch kind {
	case stageReach:
		putOne(l, w.kernels.assemblyLists, l.step)
	case stageHop:
		w.launchLocal(l)
	}
}

// launchLocal gives the picks of a stage local ids.
func (w *deviceAssembly) launchLocal(l *deviceLaunch) {
	k, appends := w.kernels, w.kernels.assemblyAppend
	if w.apart() {
		appends = k.assemblyAppendTrees
	}
	put(l, k.assemblyFlag, l.words, l.step)
	putOne(l, k.assemblyLists, l.step)
	put(l, appends, l.words, l.step)
	put(l, k.assemblyRelabel, l.words, l.step)
}
