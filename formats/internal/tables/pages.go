package tables

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/klauspost/compress/zstd"
)

// blockBytes is the most that a block of Zstandard expands to.
const blockBytes = 128 << 10

// checkPages refuses pages that expand to more than they state: the library allocates what the compressed bytes ask
// for, and not what the page's header and the budget allow.
func checkPages(r io.ReaderAt, size int64, g *file.RowGroupReader, column int) error {
	m, err := g.MetaData().ColumnChunk(column)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	codec := m.Compression()
	if codec != compress.Codecs.Zstd && codec != compress.Codecs.Snappy {
		return nil // others stop where the buffer ends
	}
	at := m.DataPageOffset()
	if m.HasDictionaryPage() && m.DictionaryPageOffset() > 0 {
		at = min(at, m.DictionaryPageOffset())
	}
	end := min(size, at+max(m.TotalCompressedSize(), 0))
	for values := int64(0); at >= 0 && at < end && values < m.NumValues(); {
		h, err := readPageHeader(io.NewSectionReader(r, at, end-at))
		if err != nil {
			return fmt.Errorf("%w: the page at byte %d: %w", ErrFormat, at, err)
		}
		body := at + h.bytes
		if h.compressed < 0 || h.compressed > end-body || h.levels < 0 || h.levels > min(h.compressed, h.expanded) {
			return fmt.Errorf("%w: the page at byte %d states %d bytes, and %d are left", ErrFormat, at, h.compressed,
				end-body)
		}
		if !h.plain {
			data := io.NewSectionReader(r, body+h.levels, h.compressed-h.levels)
			if err := checkExpansion(data, codec, h.expanded-h.levels); err != nil {
				return fmt.Errorf("%w: the page at byte %d: %w", ErrFormat, at, err)
			}
		}
		at, values = body+h.compressed, values+h.values
	}
	return nil
}

// checkExpansion refuses compressed data that expands to more than so many bytes.
func checkExpansion(data *io.SectionReader, codec compress.Compression, most int64) error {
	tooMuch := fmt.Errorf("it expands to more than the %d bytes that it states", most)
	if codec == compress.Codecs.Snappy {
		var head [binary.MaxVarintLen64]byte
		n, err := data.ReadAt(head[:], 0)
		if err != nil && err != io.EOF {
			return err
		}
		if v, k := binary.Uvarint(head[:n]); k <= 0 || v > uint64(most) {
			return tooMuch
		}
		return nil
	}
	bound, err := expansion(data)
	if err != nil || bound <= most+8*blockBytes {
		return err
	}
	// Blocks need not be full: only decoding says what they hold.
	src := make([]byte, data.Size())
	if _, err := data.ReadAt(src, 0); err != nil && err != io.EOF {
		return err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.DecodeAll(src, make([]byte, 0, most)); err != nil {
		return errors.Join(tooMuch, err)
	}
	return nil
}

// expansion returns what frames of Zstandard expand to at most, by the headers of their blocks alone.
func expansion(data *io.SectionReader) (total int64, err error) {
	var head [zstd.HeaderMaxSize]byte
	for at := int64(0); at < data.Size(); {
		n, err := data.ReadAt(head[:], at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		var h zstd.Header
		if err := h.Decode(head[:n]); err != nil {
			return 0, err
		}
		if at += int64(h.HeaderSize); h.Skippable {
			at += int64(h.SkippableSize)
			continue
		}
		frame := int64(0)
		for last := false; !last; {
			var b [3]byte
			if _, err := data.ReadAt(b[:], at); err != nil {
				return 0, fmt.Errorf("a block is cut short: %w", err)
			}
			block := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
			kind, size := block>>1&3, block>>3
			last = block&1 == 1
			at += 3 + size
			switch kind {
			case 1: // one byte, so many times
				at += 1 - size
				frame += size
			case 2:
				frame += blockBytes
			default:
				frame += size
			}
		}
		if h.HasFCS && h.FrameContentSize < uint64(frame) {
			frame = int64(h.FrameContentSize)
		} else if h.HasFCS && h.FrameContentSize > uint64(frame) {
			return 0, fmt.Errorf("a frame states %d bytes, and its blocks have at most %d", h.FrameContentSize, frame)
		}
		total += frame
		if h.HasCheckSum {
			at += 4
		}
	}
	return total, nil
}

// pageHeader is what a page says of itself.
type pageHeader struct {
	bytes                int64 // of the header
	expanded, compressed int64
	levels               int64 // bytes before what is compressed
	values               int64 // 0 for a dictionary
	plain                bool  // not compressed
}

// readPageHeader reads a header, which is a struct of Thrift's compact protocol.
func readPageHeader(r io.Reader) (h pageHeader, err error) {
	t := &thrift{r: bufio.NewReaderSize(r, 512)}
	t.structure(0, func(id int16, kind byte) bool {
		switch {
		case id == 2 && kind == thriftI32:
			h.expanded = t.zigzag()
		case id == 3 && kind == thriftI32:
			h.compressed = t.zigzag()
		case id == 5 && kind == thriftStruct:
			t.structure(1, func(id int16, kind byte) bool {
				if id == 1 && kind == thriftI32 {
					h.values = t.zigzag()
					return true
				}
				return false
			})
		case id == 8 && kind == thriftStruct:
			t.structure(1, func(id int16, kind byte) bool {
				switch {
				case id == 1 && kind == thriftI32:
					h.values = t.zigzag()
				case (id == 5 || id == 6) && kind == thriftI32:
					h.levels += max(t.zigzag(), 0)
				case id == 7:
					h.plain = kind == thriftFalse
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	h.bytes = t.n
	return h, t.err
}

// The types of Thrift's compact protocol.
const (
	thriftFalse  = 2
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12

	maxHeader = 16 << 20 // bytes of a header, as the library bounds them
	maxNested = 16
)

// thrift reads values. The first error stays.
type thrift struct {
	r   *bufio.Reader
	n   int64 // bytes read
	err error
}

func (t *thrift) skipBytes(n uint64) {
	if t.err == nil && n > uint64(maxHeader-t.n) {
		t.err = errors.New("the header is longer than any")
	}
	if t.err == nil {
		k, err := t.r.Discard(int(n))
		t.n, t.err = t.n+int64(k), err
	}
}

func (t *thrift) byte() byte {
	if t.err != nil {
		return 0
	}
	b, err := t.r.ReadByte()
	if t.n++; err != nil || t.n > maxHeader {
		t.err = errors.Join(errors.New("the header does not end"), err)
	}
	return b
}

func (t *thrift) uvarint() (v uint64) {
	for shift := 0; t.err == nil; shift += 7 {
		b := t.byte()
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			break
		}
		if shift > 63 {
			t.err = errors.New("a number is too long")
		}
	}
	return v
}

func (t *thrift) zigzag() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// structure reads the fields of a struct. take reads a field, or reports that it does not.
func (t *thrift) structure(depth int, take func(id int16, kind byte) bool) {
	for id := int16(0); t.err == nil; {
		b := t.byte()
		kind := b & 15
		if kind == 0 {
			return
		}
		if b>>4 != 0 {
			id += int16(b >> 4)
		} else {
			id = int16(t.zigzag())
		}
		if !take(id, kind) {
			t.skip(depth, kind)
		}
	}
}

// skip leaves a value out.
func (t *thrift) skip(depth int, kind byte) {
	if depth > maxNested {
		t.err = errors.New("the header is nested too deeply")
	}
	switch kind {
	case 1, thriftFalse:
	case 3:
		t.byte()
	case 4, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.skipBytes(8)
	case thriftBinary:
		t.skipBytes(t.uvarint())
	case thriftList, thriftSet:
		b := t.byte()
		n := uint64(b >> 4)
		if n == 15 {
			n = t.uvarint()
		}
		for ; n > 0 && t.err == nil; n-- {
			t.skip(depth+1, max(b&15, 3)) // a bool within a list takes a byte
		}
	case thriftStruct:
		t.structure(depth+1, func(int16, byte) bool { return false })
	case thriftMap:
		t.err = errors.New("the header has a map")
	default:
		if t.err == nil {
			t.err = fmt.Errorf("the header has a value of the type %d", kind)
		}
	}
}
