package tables

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
	"github.com/apache/thrift/lib/go/thrift"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// What the library has no name for: the codec of blocks of LZ4, and an encoding.
const (
	lz4Raw          = compress.Compression(7)
	byteStreamSplit = parquet.Encoding(9)
)

// The kinds of pages that have values, as their headers say.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// errUnread is returned for pages that are not read.
var errUnread = errors.New("written in a way that is not read")

// pages reads the pages of a column of a group of rows. It is in the place of the library's own reader, which has
// neither LZ4 nor BYTE_STREAM_SPLIT, and allocates what compressed bytes ask for. This one allocates what a page
// states, and refuses one that expands to another size.
type pages struct {
	in      io.ReaderAt
	at, end int64
	left    int64 // values that are still to come
	column  *schema.Column
	expand  func(dst, src []byte) error // nil: pages are not compressed
	memory  memory.Allocator
	scratch *memory.Buffer
	page    file.Page
	err     error
}

// oldPadding is how many bytes a column may have behind those that it states: Parquet's Java library, before its
// version 1.2.9, did not count the header of a dictionary.
const oldPadding = 100

// column opens a column of a group of rows.
func (r *openParquet) column(g *file.RowGroupReader, column int) (file.ColumnChunkReader, error) {
	m, err := g.MetaData().ColumnChunk(column)
	if err != nil {
		return nil, err
	}
	if m.CryptoMetadata() != nil {
		return nil, fmt.Errorf("%w: encrypted: decrypt it first", errUnread)
	}
	p := &pages{in: r.raw, at: m.DataPageOffset(), left: m.NumValues(), column: r.MetaData().Schema.Column(column),
		memory: r.memory, scratch: memory.NewResizableBuffer(r.memory)}
	if m.HasDictionaryPage() && m.DictionaryPageOffset() > 0 {
		p.at = min(p.at, m.DictionaryPageOffset())
	}
	if p.end = r.raw.Size; m.TotalCompressedSize() < p.end-p.at-oldPadding {
		p.end = p.at + max(m.TotalCompressedSize(), 0) + oldPadding
	}
	if p.at < 0 || p.at > p.end {
		return nil, fmt.Errorf("its pages begin at byte %d", p.at)
	}
	if p.expand, err = expander(m.Compression()); err != nil {
		return nil, err
	}
	pool := &sync.Pool{New: func() any { return memory.NewResizableBuffer(r.memory) }}
	return file.NewColumnReader(p.column, p, r.memory, pool), nil
}

// Page, Err, Next, Reset and SetMaxPageHeaderSize implement file.PageReader.
func (p *pages) Page() file.Page { return p.page }
func (p *pages) Err() error      { return p.err }

func (p *pages) SetMaxPageHeaderSize(int) {}
func (p *pages) Reset(parquet.BufferedReader, int64, compress.Compression, *file.CryptoContext) {
	p.err = errors.New("a column is read once")
}

func (p *pages) Next() bool {
	if p.page != nil {
		p.page.Release()
		p.page = nil
	}
	for p.err == nil && p.page == nil && p.left > 0 && p.at < p.end {
		at := p.at
		if p.err = p.next(); p.err != nil {
			p.err = fmt.Errorf("%w: the page at byte %d: %w", ErrFormat, at, p.err)
		}
	}
	return p.page != nil
}

// next reads a page, or passes over one without values.
func (p *pages) next() error {
	h, err := readPageHeader(io.NewSectionReader(p.in, p.at, p.end-p.at))
	if err != nil {
		return err
	}
	body := p.at + h.bytes
	if h.compressed < 0 || h.compressed > p.end-body || h.expanded < 0 || h.values < 0 || h.levels() < 0 ||
		h.levels() > min(h.compressed, h.expanded) {
		return fmt.Errorf("it states %d bytes, and %d are left", h.compressed, p.end-body)
	}
	p.at = body + h.compressed
	if h.kind != dataPage && h.kind != dictionaryPage && h.kind != dataPageV2 {
		return nil
	}
	buf := memory.NewResizableBuffer(p.memory)
	buf.Resize(int(h.expanded))
	if err = p.fill(buf.Bytes(), body, &h); err == nil && h.encoding == int64(byteStreamSplit) {
		err = p.join(buf.Bytes(), &h)
	}
	if err != nil {
		buf.Release()
		return err
	}
	values, encoding := int32(h.values), parquet.Encoding(h.encoding)
	switch h.kind {
	case dictionaryPage:
		p.page = file.NewDictionaryPage(buf, values, encoding)
		return nil
	case dataPage:
		p.page = file.NewDataPageV1(buf, values, encoding, parquet.Encoding(h.defs), parquet.Encoding(h.reps),
			int32(h.expanded))
	case dataPageV2:
		p.page = file.NewDataPageV2(buf, values, int32(h.nulls), int32(h.rows), encoding, int32(h.defs), int32(h.reps),
			int32(h.expanded), false)
	}
	p.left -= h.values
	return nil
}

// fill reads the body of a page, and decompresses it.
func (p *pages) fill(to []byte, body int64, h *pageHeader) error {
	if p.expand == nil || h.kind == dataPageV2 && h.plain {
		if h.compressed != h.expanded {
			return fmt.Errorf("it is not compressed, and states %d bytes and %d", h.compressed, h.expanded)
		}
		if err := readFull(p.in, to, body); err != nil {
			return err
		}
		return h.check(to)
	}
	p.scratch.Resize(int(h.compressed))
	src, levels := p.scratch.Bytes(), h.levels()
	if err := readFull(p.in, src, body); err != nil {
		return err
	}
	if err := h.check(src); err != nil {
		return err
	}
	copy(to, src[:levels])
	if h.expanded == levels {
		return nil
	}
	return p.expand(to[levels:], src[levels:])
}

func readFull(r io.ReaderAt, to []byte, at int64) error {
	if n, err := r.ReadAt(to, at); n < len(to) {
		return err
	}
	return nil
}

// join puts together the bytes of values that a page has apart, all first ones, then all second ones, and so on, and
// says that they are plain.
func (p *pages) join(data []byte, h *pageHeader) error {
	width := map[parquet.Type]int{parquet.Types.Float: 4, parquet.Types.Int32: 4, parquet.Types.Double: 8,
		parquet.Types.Int64: 8, parquet.Types.FixedLenByteArray: p.column.TypeLength()}[p.column.PhysicalType()]
	levels, err := p.levels(data, h)
	if err != nil {
		return err
	}
	data = data[levels:]
	if width <= 0 || len(data)%width != 0 || h.kind == dictionaryPage {
		return fmt.Errorf("%d bytes as BYTE_STREAM_SPLIT of %v", len(data), p.column.PhysicalType())
	}
	p.scratch.Resize(len(data))
	copy(p.scratch.Bytes(), data)
	n := len(data) / width
	for k := range width {
		for i, b := range p.scratch.Bytes()[k*n : (k+1)*n] {
			data[i*width+k] = b
		}
	}
	h.encoding = int64(parquet.Encodings.Plain)
	return nil
}

// levels returns how many bytes a page has before its values.
func (p *pages) levels(data []byte, h *pageHeader) (at int64, err error) {
	if h.kind == dataPageV2 {
		return h.levels(), nil
	}
	for _, l := range []struct {
		most     int16
		encoding int64
	}{{p.column.MaxRepetitionLevel(), h.reps}, {p.column.MaxDefinitionLevel(), h.defs}} {
		if l.most == 0 {
			continue
		}
		rest := data[at:]
		if l.encoding != int64(parquet.Encodings.RLE) || len(rest) < 4 ||
			int64(binary.LittleEndian.Uint32(rest)) > int64(len(rest)-4) {
			return 0, errors.New("its levels are cut short")
		}
		at += 4 + int64(binary.LittleEndian.Uint32(rest))
	}
	return at, nil
}

// expander returns the function that decompresses bytes to size others, at least one; nil for no compression.
func expander(codec compress.Compression) (func(dst, src []byte) error, error) {
	switch codec {
	case compress.Codecs.Uncompressed:
		return nil, nil
	case lz4Raw:
		return expandLZ4, nil
	case compress.Codecs.Lz4:
		return expandHadoop, nil
	case compress.Codecs.Zstd:
		return expandZstd, nil
	}
	library, err := compress.GetCodec(codec)
	if err != nil {
		return nil, fmt.Errorf("%w: pages compressed by %v: write the file again, compressed by zstd or snappy",
			errUnread, codec)
	}
	return func(dst, src []byte) error {
		if n, _ := binary.Uvarint(src); codec == compress.Codecs.Snappy && n != uint64(len(dst)) {
			return otherSize(int64(n), dst) // which the library would allocate
		}
		return otherSize(int64(len(library.Decode(dst, src))), dst)
	}, nil
}

// otherSize is the error of a page that expands to n bytes; nil if it states as many.
func otherSize(n int64, dst []byte) error {
	if n == int64(len(dst)) {
		return nil
	}
	return fmt.Errorf("it expands to other than the %d bytes that it states", len(dst))
}

func expandLZ4(dst, src []byte) error {
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil {
		return errors.Join(otherSize(-1, dst), err)
	}
	return otherSize(int64(n), dst)
}

// expandHadoop decompresses what old writers call LZ4: blocks with both their sizes before them, as in Hadoop, or one
// block alone.
func expandHadoop(dst, src []byte) error {
	to, from := dst, src
	for len(from) > 8 {
		n, size := int64(binary.BigEndian.Uint32(from)), int64(binary.BigEndian.Uint32(from[4:]))
		if from = from[8:]; n > int64(len(to)) || size > int64(len(from)) || expandLZ4(to[:n], from[:size]) != nil {
			return expandLZ4(dst, src)
		}
		to, from = to[n:], from[size:]
	}
	if len(to) > 0 || len(from) > 0 {
		return expandLZ4(dst, src)
	}
	return nil
}

// zstdPages decompresses no more than there is room for.
var zstdPages = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

func expandZstd(dst, src []byte) error {
	d, err := zstdPages()
	if err != nil {
		return err
	}
	got, err := d.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return errors.Join(otherSize(-1, dst), err)
	}
	return otherSize(int64(len(got)), dst)
}

// pageHeader is what a page says of itself.
type pageHeader struct {
	bytes                int64 // of the header
	kind                 int64
	expanded, compressed int64
	values, nulls, rows  int64
	encoding             int64
	crc                  int64 // of what follows the header, as int32; noCRC: it states none
	defs, reps           int64 // how levels are encoded; of version 2 how many bytes they have
	plain                bool  // of version 2: not compressed
}

// levels returns how many bytes come before what is compressed.
func (h *pageHeader) levels() int64 {
	if h.kind != dataPageV2 {
		return 0
	}
	if h.defs < 0 || h.reps < 0 {
		return -1
	}
	return h.defs + h.reps
}

const noCRC = 1 << 40

// check compares the bytes behind the header with the checksum that it states.
func (h *pageHeader) check(body []byte) error {
	if sum := crc32.ChecksumIEEE(body); h.crc != noCRC && uint32(h.crc) != sum {
		return fmt.Errorf("its checksum is %08x, and it states %08x", sum, uint32(h.crc))
	}
	return nil
}

const maxHeader = 16 << 20 // bytes of a header, as the library bounds them

// readPageHeader reads a header, which is a struct of Thrift's compact protocol.
func readPageHeader(r io.Reader) (h pageHeader, err error) {
	count := &source.Counting{R: io.LimitReader(r, maxHeader)}
	ahead := bufio.NewReader(count)
	compressed := true
	h.crc = noCRC
	t := thriftStruct{thrift.NewTCompactProtocolConf(thrift.NewStreamTransportR(ahead), nil)}
	err = t.take(map[int16]any{1: &h.kind, 2: &h.expanded, 3: &h.compressed, 4: &h.crc,
		5: map[int16]any{1: &h.values, 2: &h.encoding, 3: &h.defs, 4: &h.reps},
		7: map[int16]any{1: &h.values, 2: &h.encoding},
		8: map[int16]any{1: &h.values, 2: &h.nulls, 3: &h.rows, 4: &h.encoding, 5: &h.defs, 6: &h.reps,
			7: &compressed}})
	h.plain, h.bytes = !compressed, count.N-int64(ahead.Buffered())
	return h, err
}

// thriftStruct reads structs.
type thriftStruct struct{ p thrift.TProtocol }

// take reads a struct, of which it keeps the fields that are wanted: numbers, truths, and structs of them.
func (t thriftStruct) take(want map[int16]any) error {
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
		if err := t.field(ctx, kind, want[id]); err != nil {
			return err
		}
	}
}

// field reads a field, and keeps it if it is of the kind that is wanted.
func (t thriftStruct) field(ctx context.Context, kind thrift.TType, want any) (err error) {
	switch to := want.(type) {
	case *int64:
		if kind == thrift.I32 {
			n, err := t.p.ReadI32(ctx)
			*to = int64(n)
			return err
		}
	case *bool:
		if kind == thrift.BOOL {
			*to, err = t.p.ReadBool(ctx)
			return err
		}
	case map[int16]any:
		if kind == thrift.STRUCT {
			return t.take(to)
		}
	}
	return thrift.SkipDefaultDepth(ctx, t.p, kind)
}
