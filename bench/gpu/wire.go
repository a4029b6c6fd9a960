package gpu

// The model of the bus: a read of a line, or of a part of one, costs its sectors of 32 bytes and
// 20 bytes besides, and it is one request. A second has room for a number of bytes and a number of requests.
const (
	lineBytes     = 128
	sectorBytes   = 32
	overheadBytes = 20
)

// wireBytes returns what the bus carries for a row, in the model.
func wireBytes(sectors, lines float64) float64 { return sectorBytes*sectors + overheadBytes*lines }

// busResult is how fast memory of the host is read.
type busResult struct {
	// by a kernel that reads whole lines in order; the best of several grids
	InOrderGBPerS float64 `json:"in_order_gb_per_s"`
	Blocks        int     `json:"blocks"`        // of that grid
	CopyGBPerS    float64 `json:"copy_gb_per_s"` // by the copy engine, to device memory
	LinkGBPerS    float64 `json:"link_gb_per_s"` // what the bus carries in the model while it is read in order
	// RequestsMPerS is millions of random reads of one sector a second, over all of the memory: the more there is of
	// it, the more of them miss in the tables of pages.
	RequestsMPerS float64 `json:"requests_m_per_s"`
}

// rowsPerS returns how many rows of these sectors and lines the bus brings in the model: as many as its bytes or its
// requests allow, whichever are fewer.
func (b *busResult) rowsPerS(sectors, lines float64) float64 {
	return min(b.LinkGBPerS*1e9/wireBytes(sectors, lines), b.RequestsMPerS*1e6/lines)
}

// probeReads is how many random reads calibrate the requests, at most.
const probeReads = 4 << 20

// inOrder are the grids that are tried, in blocks of 256 threads.
var inOrder = []int{40, 80, 160, 320, 640, 1280}

const blockThreads = 256

// bus measures the bus: lines in order over the first bytes of some memory, 1 GiB at most, and a number of random reads
// over all of it.
func (r *rig) bus(m *memory, reads int64) (b busResult, err error) {
	n := min(int64(len(m.bytes)), 1<<30) &^ (lineBytes - 1)
	for _, blocks := range inOrder {
		took, err := r.time(func() error {
			return r.probe.readInOrder.Launch(r.stream, blocks, blockThreads, 0,
				deviceOrdered{from: m.addr, n: n / 16, sink: r.sink.Address()})
		})
		if err != nil {
			return b, err
		}
		if rate := float64(n) / took / 1e9; rate > b.InOrderGBPerS {
			b.InOrderGBPerS, b.Blocks = rate, blocks
		}
	}
	b.LinkGBPerS = b.InOrderGBPerS * wireBytes(lineBytes/sectorBytes, 1) / lineBytes
	_, seconds, err := r.reads(m, reads)
	if err != nil {
		return b, err
	}
	b.RequestsMPerS = float64(reads) / seconds / 1e6
	n = min(n, 256<<20, m.contiguous)
	to, err := r.dev.Alloc(n)
	if err != nil {
		return b, err
	}
	defer to.Close()
	took, err := r.time(func() error { return r.stream.CopyToDevice(to.Address(), m.bytes[:n]) })
	b.CopyGBPerS = float64(n) / took / 1e9
	return b, err
}

type randomOptions struct {
	memory memoryOptions
	reads  int64
}

type randomResult struct {
	machineResult
	Memory     memoryResult `json:"memory"`
	Bus        busResult    `json:"bus"`
	Reads      int64        `json:"reads"`
	Seconds    float64      `json:"seconds"`
	MReadsPerS float64      `json:"m_reads_per_s"` // millions of random reads of one sector
	Blocks     int          `json:"blocks"`        // of the best grid
}

// random measures random reads of one sector each: the most that a sampler over the bus can have.
func (r *rig) random(o randomOptions) (result *randomResult, err error) {
	m, err := r.take(o.memory)
	if err != nil {
		return nil, err
	}
	defer func() { err = m.undo.run(err) }()
	result = &randomResult{machineResult: r.machine(), Memory: m.result, Reads: o.reads}
	if result.Bus, err = r.bus(m, o.reads); err != nil {
		return nil, err
	}
	if result.Blocks, result.Seconds, err = r.reads(m, o.reads); err != nil {
		return nil, err
	}
	result.MReadsPerS = float64(o.reads) / result.Seconds / 1e6
	return result, nil
}

// reads makes n random reads of one sector each, and returns the best grid and its time.
func (r *rig) reads(m *memory, n int64) (best int, least float64, err error) {
	key := uint64(0)
	for _, blocks := range inOrder {
		took, err := r.time(func() error {
			key++ // other sectors each time
			return r.probe.readAtRandom.Launch(r.stream, blocks, blockThreads, 0,
				deviceRandom{from: m.addr, sectors: int64(len(m.bytes)) / sectorBytes, n: n,
					key: key * 0x9E3779B97F4A7C15, sink: r.sink.Address()})
		})
		if err != nil {
			return 0, 0, err
		}
		if least == 0 || took < least {
			best, least = blocks, took
		}
	}
	return best, least, nil
}
