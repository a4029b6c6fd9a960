package outside

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Store keeps rows of float32 in a quarter of their bytes: an int8 an element, and a scale a row. It is read-only once
// made, for any number of goroutines.
type Store struct {
	Width  int
	codes  []int8    // [rows, Width]
	scales []float32 // [rows]
}

// NewStore keeps rows of width elements, rounded to 1/127 of the greatest of each row.
func NewStore(rows []float32, width int) *Store {
	s := &Store{Width: width, codes: make([]int8, len(rows)), scales: make([]float32, len(rows)/width)}
	for i := range s.scales {
		row := rows[i*width : (i+1)*width]
		greatest := float32(0)
		for _, x := range row {
			greatest = max(greatest, x, -x)
		}
		if s.scales[i] = greatest / 127; greatest == 0 {
			continue
		}
		for j, x := range row {
			code := x / s.scales[i]
			if code < 0 {
				code--
			}
			s.codes[i*width+j] = int8(min(max(int(code+0.5), -127), 127))
		}
	}
	return s
}

// Gather writes the rows ids[i] to out, [len(ids), Width]. Every id must be a row.
func (s *Store) Gather(out []float32, ids []int32) {
	for i, id := range ids {
		row, scale := s.codes[int(id)*s.Width:][:s.Width], s.scales[id]
		for j, code := range row {
			out[i*s.Width+j] = float32(code) * scale
		}
	}
}

// DeviceStore is a copy of a Store in device memory. Any number of goroutines may use it, each with a stream of its
// own.
type DeviceStore struct {
	on            *device.Device
	kernels       *outsideKernels
	width         int
	codes, scales *pinned.Region
}

// Upload copies the store to a device. Close the copy before the device.
func (s *Store) Upload(on *device.Device, stream *device.Stream) (*DeviceStore, error) {
	k, err := kernels.Hold(on, loadOutsideKernels)
	if err != nil {
		return nil, err
	}
	d := &DeviceStore{on: on, kernels: k, width: s.Width}
	for to, from := range map[**pinned.Region]unified.Tensor{
		&d.codes: unified.FromSlice(s.codes), &d.scales: unified.FromSlice(s.scales)} {
		if *to, err = pinned.Allocate(int64(len(from.Bytes())), pinned.Options{Device: on}); err == nil {
			err = stream.CopyToDevice((*to).Address(), from.Bytes())
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if err := stream.Synchronize(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Enqueue puts on the stream that the rows ids[i], int32 in memory of the device, are written to dst, and returns that
// as float32 [len(ids), Width]. It holds the rows once the stream has passed.
func (d *DeviceStore) Enqueue(stream *device.Stream, dst *unified.Buffer, ids unified.Tensor) (unified.Tensor, error) {
	if ids.DType() != unified.Int32 || ids.Len() == 0 {
		return unified.Tensor{}, fmt.Errorf("%w: ids are %v", unified.ErrShape, ids)
	}
	n := ids.Len() * int64(d.width)
	if err := dst.Claim(4 * n); err != nil {
		return unified.Tensor{}, err
	}
	err := d.kernels.outsideExpand.Launch(stream, int(min((n+255)/256, 160)), 256, 0,
		deviceExpand{codes: d.codes.Address(), scales: d.scales.Address(), width: int64(d.width), ids: ids.Address(),
			numIds: ids.Len(), out: dst.Address()})
	if err != nil {
		return unified.Tensor{}, err
	}
	return dst.Tensor(unified.Float32, ids.Len(), int64(d.width))
}

// Close frees the copy. No stream may still use it.
func (d *DeviceStore) Close() error {
	return errors.Join(d.codes.Close(), d.scales.Close(), kernels.LetGo(d.on))
}
