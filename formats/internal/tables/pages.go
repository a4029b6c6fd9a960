package tables

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/thrift/lib/go/thrift"
	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// blockBytes is the most that a block of Zstandard expands to.
const blockBytes = 128 << 10

// byteStreamSplit is an encoding that the library has no name for.
const byteStreamSplit = parquet.Encoding(9)

// errUnread is returned for pages that the library does not read.
var errUnread = errors.New("written in a way that is not read")

// checkWriting refuses what the library would not read, or would take for no rows.
func checkWriting(m *metadata.ColumnChunkMetaData) error {
	if _, err := compress.GetCodec(m.Compression()); err != nil {
		return fmt.Errorf("%w: pages compressed by %v: write the file again, compressed by zstd or snappy", errUnread,
			m.Compression())
	}
	if slices.Contains(m.Encodings(), byteStreamSplit) {
		return fmt.Errorf("%w: values encoded as BYTE_STREAM_SPLIT: write the file again, with plain encoding "+
			"(in DuckDB PARQUET_VERSION v1)", errUnread)
	}
	return nil
}

// checkPages refuses pages that expand to more than they state: the library allocates what the compressed bytes ask
// for, and not what the page's header and the budget allow.
func checkPages(r io.ReaderAt, size int64, g *file.RowGroupReader, column int) error {
	m, err := g.MetaData().ColumnChunk(column)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := checkWriting(m); err != nil {
		return err
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

const maxHeader = 16 << 20 // bytes of a header, as the library bounds them

// readPageHeader reads a header, which is a struct of Thrift's compact protocol.
func readPageHeader(r io.Reader) (h pageHeader, err error) {
	count := &source.Counting{R: io.LimitReader(r, maxHeader)}
	ahead := bufio.NewReader(count)
	t := thriftStruct{thrift.NewTCompactProtocolConf(thrift.NewStreamTransportR(ahead), nil)}
	values := func(id int16, kind thrift.TType) (err error) {
		if id != 1 || kind != thrift.I32 {
			return errSkip
		}
		h.values, err = t.number()
		return err
	}
	err = t.each(func(id int16, kind thrift.TType) (err error) {
		switch {
		case id == 2 && kind == thrift.I32:
			h.expanded, err = t.number()
		case id == 3 && kind == thrift.I32:
			h.compressed, err = t.number()
		case id == 5 && kind == thrift.STRUCT:
			return t.each(values)
		case id == 8 && kind == thrift.STRUCT:
			return t.each(func(id int16, kind thrift.TType) (err error) {
				n := int64(0)
				switch {
				case (id == 5 || id == 6) && kind == thrift.I32:
					n, err = t.number()
					h.levels += max(n, 0)
				case id == 7 && kind == thrift.BOOL:
					h.plain, err = t.p.ReadBool(context.Background())
					h.plain = !h.plain
				default:
					return values(id, kind)
				}
				return err
			})
		default:
			return errSkip
		}
		return err
	})
	h.bytes = count.N - int64(ahead.Buffered())
	return h, err
}

// errSkip says that a field is not looked at.
var errSkip = errors.New("another field")

// thriftStruct reads structs.
type thriftStruct struct{ p thrift.TProtocol }

func (t thriftStruct) number() (int64, error) {
	n, err := t.p.ReadI32(context.Background())
	return int64(n), err
}

// each calls take for the fields of a struct, and leaves out those for which it returns errSkip.
func (t thriftStruct) each(take func(id int16, kind thrift.TType) error) error {
	ctx := context.Background()
	if _, err := t.p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := t.p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			return t.p.ReadStructEnd(ctx)
		}
		if err = take(id, kind); err == errSkip {
			err = thrift.SkipDefaultDepth(ctx, t.p, kind)
		}
		if err != nil {
			return err
		}
	}
}
