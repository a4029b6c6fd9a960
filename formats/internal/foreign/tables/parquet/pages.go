package parquet

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
	"github.com/apache/thrift/lib/go/thrift"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
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

// pages reads the pages of a column of a group of rows. It allocates what a page states, and refuses one that expands
// to another size.
type pages struct {
	in      io.ReaderAt
	at, end int64
	bytes   int64 // of all pages, as they are stated
	total   int64 // values that are in pages still to come
	column  *schema.Column
	expand  func(dst, src []byte) error // nil: pages are not compressed
	untrue  bool                        // pages of version 2 that are compressed say that they are not
	memory  memory.Allocator
	scratch *memory.Buffer
	// used are buffers that values which were read last lie in, but for the page's; kept that of the dictionary
	used, kept []*memory.Buffer
	body       *memory.Buffer // of the page
	room       []byte         // that is left in the last of used
}

// page is a page with values, or of a dictionary.
type page struct {
	kind, values int64
	encoding     parquet.Encoding
	reps, defs   []byte // levels
	data         []byte
}

// oldPadding is how many bytes a column may have behind those that it states: Parquet's Java library, before its
// version 1.2.9, did not count the header of a dictionary.
const oldPadding = 100

// column opens a column of a group of rows.
func (r *openParquet) column(g *file.RowGroupReader, column int) (*chunk, error) {
	m, err := g.MetaData().ColumnChunk(column)
	if err != nil {
		return nil, err
	}
	if m.CryptoMetadata() != nil {
		return nil, fmt.Errorf("%w: encrypted: decrypt it first", guard.ErrUnread)
	}
	p := &pages{in: r.raw, at: m.DataPageOffset(), total: m.NumValues(), bytes: m.TotalUncompressedSize(),
		column: r.MetaData().Schema.Column(column), memory: r.memory, scratch: memory.NewResizableBuffer(r.memory)}
	if m.HasDictionaryPage() && m.DictionaryPageOffset() > 0 {
		p.at = min(p.at, m.DictionaryPageOffset())
	}
	if p.end = r.raw.Size; m.TotalCompressedSize() < p.end-p.at-oldPadding {
		p.end = p.at + max(m.TotalCompressedSize(), 0) + oldPadding
	}
	if p.at < 0 || p.at > p.end {
		return nil, fmt.Errorf("its pages begin at byte %d", p.at)
	}
	p.untrue = strings.HasPrefix(r.MetaData().GetCreatedBy(), "parquet-cpp version 1.")
	if p.expand, err = expander(m.Compression()); err != nil {
		return nil, err
	}
	return p.chunk()
}

// next reads a page; nil at the end.
func (p *pages) next() (page *page, err error) {
	for page == nil && p.total > 0 && p.at < p.end {
		at := p.at
		if page, err = p.one(); err != nil {
			return nil, fmt.Errorf("%w: the page at byte %d: %w", guard.ErrFormat, at, err)
		}
	}
	return page, nil
}

// one reads a page, or passes over one without values.
func (p *pages) one() (*page, error) {
	h, err := readPageHeader(io.NewSectionReader(p.in, p.at, p.end-p.at))
	if err != nil {
		return nil, err
	}
	body := p.at + h.bytes
	if h.compressed < 0 || h.compressed > p.end-body || h.expanded < 0 || h.values < 0 || h.levels() < 0 ||
		h.levels() > min(h.compressed, h.expanded) {
		return nil, fmt.Errorf("it states %d bytes, and %d are left", h.compressed, p.end-body)
	}
	p.at = body + h.compressed
	if h.kind != dataPage && h.kind != dictionaryPage && h.kind != dataPageV2 {
		return nil, nil
	}
	if p.body != nil {
		p.used = append(p.used, p.body)
	}
	p.body = memory.NewResizableBuffer(p.memory)
	p.body.Resize(int(h.expanded))
	data := p.body.Bytes()
	if err = p.fill(data, body, &h); err != nil {
		return nil, err
	}
	page := &page{kind: h.kind, values: h.values, encoding: parquet.Encoding(h.encoding)}
	if h.kind == dictionaryPage {
		p.kept, p.body = append(p.kept, p.body), nil
	} else if p.total -= h.values; h.kind == dataPageV2 {
		page.reps, page.defs, data = data[:h.reps], data[h.reps:h.levels()], data[h.levels():]
	} else if page.reps, data, err = levelBytes(data, p.column.MaxRepetitionLevel(), h.reps); err != nil {
		return nil, err
	} else if page.defs, data, err = levelBytes(data, p.column.MaxDefinitionLevel(), h.defs); err != nil {
		return nil, err
	}
	if page.data = data; page.encoding == byteStreamSplit && h.kind != dictionaryPage {
		page.encoding = parquet.Encodings.Plain
		err = p.join(data)
	}
	return page, err
}

// levelBytes returns the bytes of levels that a page of version 1 begins with, and what is behind them.
func levelBytes(data []byte, most int16, encoding int64) (levels, rest []byte, err error) {
	if most == 0 {
		return nil, data, nil
	}
	if encoding != int64(parquet.Encodings.RLE) {
		return nil, nil, fmt.Errorf("%w: levels as %v", guard.ErrUnread, parquet.Encoding(encoding))
	}
	n, err := textLength(data)
	if err != nil {
		return nil, nil, errors.New("its levels are cut short")
	}
	return data[4 : 4+n], data[4+n:], nil
}

// make returns memory for a value that does not lie in a page.
func (p *pages) make(n int) []byte {
	if n > len(p.room) {
		buf := memory.NewResizableBuffer(p.memory)
		buf.Resize(max(n, 64<<10))
		p.used, p.room = append(p.used, buf), buf.Bytes()
	}
	b := p.room[:n:n]
	p.room = p.room[n:]
	return b
}

// numbers returns memory for numbers that are kept.
func (p *pages) numbers(n int64) []uint32 {
	buf := memory.NewResizableBuffer(p.memory)
	buf.Resize(int(4 * n))
	p.kept = append(p.kept, buf)
	return arrow.Uint32Traits.CastFromBytes(buf.Bytes())
}

// close releases all buffers.
func (p *pages) close() {
	p.giveBack()
	memory.ReleaseBuffers(append(p.kept, p.scratch))
	if p.kept = nil; p.body != nil {
		p.body.Release()
	}
}

// giveBack releases what the values that were read last lie in.
func (p *pages) giveBack() {
	memory.ReleaseBuffers(p.used)
	p.used, p.room = p.used[:0], nil
}

// fill reads the body of a page, and decompresses it.
func (p *pages) fill(to []byte, body int64, h *pageHeader) error {
	if p.expand == nil || h.kind == dataPageV2 && h.plain && !p.untrue {
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

// join puts together the bytes of values that a page has apart, all first ones, then all second ones, and so on.
func (p *pages) join(data []byte) error {
	width := map[parquet.Type]int{parquet.Types.Float: 4, parquet.Types.Int32: 4, parquet.Types.Double: 8,
		parquet.Types.Int64: 8, parquet.Types.FixedLenByteArray: p.column.TypeLength()}[p.column.PhysicalType()]
	if width <= 0 || len(data)%width != 0 {
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
	return nil
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
			guard.ErrUnread, codec)
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
