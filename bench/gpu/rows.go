package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

type rowsOptions struct {
	memory          memoryOptions
	widths, offsets []int64
	blocks          []int64 // grids to try; 0 is the store's own choice
	reads           int64
}

type rowsResult struct {
	machineResult
	Memory memoryResult `json:"memory"`
	Bus    busResult    `json:"bus"`
	Cells  []rowsCell   `json:"cells"`
}

// rowsCell is one measurement of a gather of random rows.
type rowsCell struct {
	RowBytes      int64   `json:"row_bytes"`
	Offset        int64   `json:"offset"` // of the first row from a line
	Method        string  `json:"method"`
	Blocks        int64   `json:"blocks"` // at most; 0: as many as the store takes by itself
	Rows          int64   `json:"rows"`
	SectorsPerRow float64 `json:"sectors_per_row"` // that the rows touch, at least
	LinesPerRow   float64 `json:"lines_per_row"`
	GBPerS        float64 `json:"gb_per_s"`       // of rows
	ModelGBPerS   float64 `json:"model_gb_per_s"` // what the bus gives in the model
	OfModel       float64 `json:"of_model"`       // the one divided by the other
}

const maxRows = 16 << 20

// rows measures the gather of random rows of every width at every offset, by every method. With an error it returns
// what it had measured before, if anything.
func (r *rig) rows(o rowsOptions) (result *rowsResult, err error) {
	if len(o.widths) == 0 {
		return nil, errors.New("-widths: name some")
	}
	if len(o.offsets) == 0 {
		o.offsets = []int64{0}
	}
	if len(o.blocks) == 0 {
		o.blocks = []int64{0}
	}
	for _, width := range o.widths {
		for _, offset := range o.offsets {
			if width <= 0 || offset < 0 || offset+width > o.memory.bytes {
				return nil, fmt.Errorf("rows of %d bytes at %d: must lie within the memory", width, offset)
			}
		}
	}
	m, err := r.take(o.memory)
	if err != nil {
		return nil, err
	}
	defer func() { err = m.undo.run(err) }()
	result = &rowsResult{machineResult: r.machine(), Memory: m.result}
	if result.Bus, err = r.bus(m, min(probeReads, max(o.reads/lineBytes, 1))); err != nil {
		return nil, err
	}
	for _, width := range o.widths {
		for _, offset := range o.offsets {
			cells, err := r.cells(m, width, offset, o, &result.Bus)
			result.Cells = append(result.Cells, cells...)
			if err != nil {
				return result, fmt.Errorf("rows of %d bytes at %d: %w", width, offset, err)
			}
		}
	}
	return result, nil
}

// cells measures all methods on rows of one width, in as many bytes as the bus then carries.
func (r *rig) cells(m *memory, width, offset int64, o rowsOptions, bus *busResult) (cells []rowsCell, err error) {
	n := (int64(len(m.bytes)) - offset) / width
	at := m.addr + device.Address(offset)
	dtype, by := unified.Float32, methods
	if (width|offset)%4 != 0 {
		dtype, by = unified.Uint8, methods[:2] // the others know float32 alone
	}
	wide := width / dtype.Size()
	column, err := unified.NewPlaced(pinned.Pinned, dtype, m.bytes[offset:offset+n*width], n, wide)
	if err != nil {
		return nil, err
	}
	count := min(max(o.reads/(width+overheadBytes+sectorBytes), 1), maxRows)
	ids := randomRows(count, n, rand.New(rand.NewPCG(uint64(width), uint64(offset))))
	sectors, lines := touched(ids, uint64(at), uint64(width))
	var u undo
	defer func() { err = u.run(err) }()
	idList, err := r.put(&u, unified.FromSlice(ids))
	if err != nil {
		return nil, err
	}
	inOrder := slices.Sorted(slices.Values(ids))
	orderedList, err := r.put(&u, unified.FromSlice(inOrder))
	if err != nil {
		return nil, err
	}
	out, err := r.place(&u, dtype, count, wide)
	if err != nil {
		return nil, err
	}
	store, err := cuda.NewStore(r.dev, column, at)
	if err != nil {
		return nil, err
	}
	u = append(u, store.Close)
	model := bus.rowsPerS(sectors, lines) * float64(width) / 1e9
	for _, blocks := range o.blocks {
		store.MaxBlocks = int(blocks)
		for _, method := range by {
			list, want := idList, ids
			if method == "sorted" {
				list, want = orderedList, inOrder
			}
			took, err := r.timeGather(method, store, at, out, list, blocks, want)
			if err != nil {
				return cells, err
			}
			rate := float64(count*width) / took / 1e9
			cells = append(cells, rowsCell{RowBytes: width, Offset: offset, Method: method, Blocks: blocks, Rows: count,
				SectorsPerRow: sectors, LinesPerRow: lines, GBPerS: rate, ModelGBPerS: model, OfModel: rate / model})
		}
	}
	return cells, store.Err()
}

func randomRows(count, n int64, r *rand.Rand) []int64 {
	ids := make([]int64, count)
	for i := range ids {
		ids[i] = r.Int64N(n)
	}
	return ids
}

// timeGather times a gather, and compares what it has left in out with the rows that are wanted.
func (r *rig) timeGather(method string, store *cuda.Store, at device.Address, out, ids unified.Tensor,
	blocks int64, want []int64) (seconds float64, err error) {
	seconds, err = r.time(func() error { return r.gather(method, store, at, out, ids, blocks) })
	if err == nil {
		err = r.compare(store.Column(), out, want)
	}
	if err != nil {
		return 0, fmt.Errorf("%v: %w", method, err)
	}
	return seconds, nil
}

// methods are the ways to gather that are measured: khop's, the same with ids in the order of the rows, and two that
// give each element of the result to a thread (elements.cu).
var methods = []string{"per-row", "sorted", "shift", "naive"}

// gather puts a gather of rows on the stream, in at most this number of blocks; 0 is khop's own choice, or 40.
func (r *rig) gather(method string, store *cuda.Store, at device.Address, out, ids unified.Tensor,
	blocks int64) error {
	if method == "per-row" || method == "sorted" {
		return store.EnqueueInto(r.stream, out, ids, 0)
	}
	run, width := r.elements.gatherNaive, out.RowBytes()/4
	if method == "shift" && width > 32 && width%32 != 0 { // else nothing is to be gained
		run = r.elements.gatherShift
	}
	if blocks == 0 {
		blocks = 40
	}
	grid := min(blocks, (ids.Len()*width-1)/blockThreads+1)
	return run.Launch(r.stream, int(grid), blockThreads, 0,
		deviceElements{base: at, width: width, ids: ids.Address(), rows: ids.Len(), dst: out.Address()})
}

// touched returns how many sectors and lines a row touches in the mean.
func touched(ids []int64, base, width uint64) (sectors, lines float64) {
	var s, l uint64
	for _, id := range ids {
		first := base + uint64(id)*width
		last := first + width - 1
		s += last/sectorBytes - first/sectorBytes + 1
		l += last/lineBytes - first/lineBytes + 1
	}
	n := float64(len(ids))
	return float64(s) / n, float64(l) / n
}

// compare looks at the first rows that were gathered, 4 MiB of them at most.
func (r *rig) compare(column, out unified.Tensor, ids []int64) error {
	width := column.RowBytes()
	n := min(int64(len(ids)), max(4<<20/width, 1))
	got := make([]byte, n*width)
	if err := r.stream.CopyToHost(got, out.Address()); err != nil {
		return err
	}
	if err := r.stream.Synchronize(); err != nil {
		return err
	}
	for i, id := range ids[:n] {
		if !bytes.Equal(got[int64(i)*width:][:width], column.Bytes()[id*width:][:width]) {
			return fmt.Errorf("row %d, which is %d of the column, differs from the column's", i, id)
		}
	}
	return nil
}

// seconds returns a clock that tells the time since now.
func seconds() func() float64 {
	start := time.Now()
	return func() float64 { return time.Since(start).Seconds() }
}
