package device

import "sync/atomic"

// Graph is a captured sequence of launches and copies that is launched again with one call. The addresses and sizes in
// it are those of the capture. The zero value is not usable.
type Graph struct {
	device            *primary
	graph, executable handle
	closed            atomic.Bool
}

// BeginCapture records what is put on the stream from now on instead of running it, until EndCapture. The capture is
// relaxed: other goroutines may allocate, load and wait meanwhile.
func (s *Stream) BeginCapture() error {
	return s.do("begin a capture", drv.beginCapture)
}

// EndCapture ends the capture and returns what was captured, ready to launch. Close it.
func (s *Stream) EndCapture() (*Graph, error) {
	g := &Graph{device: s.device}
	err := s.do("end a capture", func(h handle) (code result) {
		if g.graph, code = drv.endCapture(h); code != success {
			return code
		}
		if g.executable, code = drv.instantiate(g.graph); code != success {
			drv.closeGraph(g.graph, 0)
		}
		return code
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// LaunchGraph puts the captured work on the stream. A graph does not run twice at the same time: a second launch waits
// for the first.
func (s *Stream) LaunchGraph(g *Graph) error {
	if g.closed.Load() {
		return closedError("graph")
	}
	return s.do("launch a graph", func(h handle) result { return drv.launchGraph(g.executable, h) })
}

// Close frees the graph. A second Close does nothing.
func (g *Graph) Close() error {
	if g.closed.Swap(true) {
		return nil
	}
	return g.device.dispose("close a graph", func() result { return drv.closeGraph(g.graph, g.executable) })
}
