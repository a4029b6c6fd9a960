package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// The numbers within pages: levels, indices and differences. Counts and widths in them are of whoever wrote the file,
// so each is checked where it is read. A check ahead of a library would decode all of them, too.

var (
	errFewBytes = errors.New("its values are cut short")
	errRun      = errors.New("a run of numbers has no length, or one beyond its page")
)

// hybrid reads numbers of some bits: runs of one number, and of packed ones (RLE).
type hybrid struct {
	data   []byte
	width  int // bits of a number, 0 to 32
	most   uint32
	run    int64 // numbers that are left of the run
	packed []byte
	at     int64 // the next bit of packed
	value  uint32
}

// newHybrid returns a reader of numbers up to most.
func newHybrid(data []byte, most uint32) hybrid {
	return hybrid{data: data, width: bits.Len32(most), most: most}
}

// take reads the next numbers.
func take[N byte | int16 | uint32](h *hybrid, to []N) error {
	for len(to) > 0 {
		if h.run == 0 {
			if err := h.begin(); err != nil {
				return err
			}
		}
		n := min(h.run, int64(len(to)))
		if top := h.value; h.packed == nil {
			for i := range to[:n] {
				to[i] = N(top)
			}
		} else if top = unpack(h, to[:n]); top > h.most {
			return fmt.Errorf("the number %d, where %d is the greatest", top, h.most)
		}
		h.run, to = h.run-n, to[n:]
	}
	return nil
}

// begin reads what a run begins with. The last of packed numbers may lack those that fill its bytes.
func (h *hybrid) begin() error {
	head, n := binary.Uvarint(h.data)
	if n <= 0 || head>>1 == 0 || head > 1<<40 {
		return errRun
	}
	h.data, h.run, h.packed = h.data[n:], int64(head>>1), nil
	if head&1 == 1 {
		size := min(h.run*int64(h.width), int64(len(h.data)))
		if h.run *= 8; h.width > 0 {
			h.run = min(h.run, 8*size/int64(h.width))
		}
		h.packed, h.at, h.data = h.data[:size:size], 0, h.data[size:]
		if h.run == 0 {
			return errRun
		}
		return nil
	}
	size := (h.width + 7) / 8
	if len(h.data) < size {
		return errRun
	}
	var value [4]byte
	copy(value[:], h.data[:size])
	if h.value, h.data = binary.LittleEndian.Uint32(value[:]), h.data[size:]; h.value > h.most {
		return fmt.Errorf("the number %d, where %d is the greatest", h.value, h.most)
	}
	return nil
}

// unpack reads packed numbers of a run, and returns the greatest.
func unpack[N byte | int16 | uint32](h *hybrid, to []N) (top uint32) {
	data, at, mask := h.packed, h.at, uint64(1)<<h.width-1
	for i := range to {
		var word uint64
		if from := at >> 3; from+8 <= int64(len(data)) {
			word = binary.LittleEndian.Uint64(data[from:])
		} else {
			word = lastWord(data, from)
		}
		v := uint32(word >> (at & 7) & mask)
		top, to[i] = max(top, v), N(v)
		at += int64(h.width)
	}
	h.at = at
	return top
}

// lastWord returns the bytes from a place on, of which there are fewer than 8.
func lastWord(data []byte, from int64) uint64 {
	var word [8]byte
	copy(word[:], data[min(from, int64(len(data))):])
	return binary.LittleEndian.Uint64(word[:])
}

// deltas reads whole numbers, of which each is written as what it is more than the one before (DELTA_BINARY_PACKED).
type deltas struct {
	data   []byte // behind the part that is read
	left   uint64 // numbers that are still to come
	first  bool   // the next is last itself
	last   int64
	minis  uint64 // parts of a block
	size   uint64 // numbers of a part
	least  int64  // what is taken from each difference of a block
	widths []byte // of the parts of the block that are still to come
	packed []byte // of a part
	run    uint64 // numbers that are left of it
	at     uint64 // the next bit of packed
	width  uint64
}

// maxBlock is the most numbers in a block; writers have some hundreds.
const maxBlock = 1 << 20

func newDeltas(data []byte) (d *deltas, err error) {
	d = &deltas{data: data, first: true}
	block := d.uvarint(&err)
	d.minis, d.left = d.uvarint(&err), d.uvarint(&err)
	d.last = zigzag(d.uvarint(&err))
	if err != nil || d.left == 0 { // without numbers writers write anything
		return d, err
	}
	if block > maxBlock || d.minis == 0 || block%d.minis != 0 || block/d.minis == 0 || block/d.minis%8 != 0 {
		return nil, fmt.Errorf("blocks of %d numbers in %d parts", block, d.minis)
	}
	d.size = block / d.minis
	return d, nil
}

func (d *deltas) uvarint(err *error) uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		*err = errFewBytes
		return 0
	}
	d.data = d.data[n:]
	return v
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// part begins the next part of a block.
func (d *deltas) part() (err error) {
	if len(d.widths) == 0 {
		if d.least = zigzag(d.uvarint(&err)); err != nil || uint64(len(d.data)) < d.minis {
			return errFewBytes
		}
		d.widths, d.data = d.data[:d.minis], d.data[d.minis:]
	}
	d.width, d.widths = uint64(d.widths[0]), d.widths[1:]
	if d.width > 64 || uint64(len(d.data)) < (min(d.size, d.left)*d.width+7)/8 {
		return errFewBytes
	}
	size := min(d.size*d.width/8, uint64(len(d.data)))
	d.packed, d.data, d.run, d.at = d.data[:size:size], d.data[size:], d.size, 0
	return nil
}

// next returns the next number.
func (d *deltas) next() (int64, error) {
	if d.left == 0 {
		return 0, errFewBytes
	}
	if d.first {
		d.first, d.left = false, d.left-1
		return d.last, nil
	}
	if d.run == 0 {
		if err := d.part(); err != nil {
			return 0, err
		}
	}
	from, shift := int64(d.at>>3), d.at&7
	v := lastWord(d.packed, from) >> shift
	if shift+d.width > 64 {
		v |= lastWord(d.packed, from+8) << (64 - shift)
	}
	d.last += d.least + int64(v&(uint64(1)<<d.width-1))
	d.left, d.run, d.at = d.left-1, d.run-1, d.at+d.width
	return d.last, nil
}

// end returns what lies behind the numbers, none of which have been read.
func (d deltas) end() ([]byte, error) {
	for d.left -= min(d.left, 1); d.left > 0; d.left -= min(d.left, d.size) {
		if err := d.part(); err != nil {
			return nil, err
		}
	}
	return d.data, nil
}

// length returns the next number, which is a length of at most so much.
func (d *deltas) length(most int) (int, error) {
	n, err := d.next()
	if err == nil && (n < 0 || n > int64(most)) {
		err = fmt.Errorf("a text of %d bytes, where %d are left", n, most)
	}
	return int(n), err
}
