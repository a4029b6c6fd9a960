package array

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16
	maxRank   = 32
)

// ReadHeader reads the header and leaves r at the first element. ErrFormat if there is none.
func ReadHeader(r io.Reader) (Header, error) {
	var b [12]byte
	if _, err := io.ReadFull(r, b[:8]); err != nil || string(b[:6]) != magic {
		return Header{}, fmt.Errorf("%w: the first bytes are %q", ErrFormat, b[:6])
	}
	size := int64(0)
	switch b[6] {
	case 1:
		if _, err := io.ReadFull(r, b[8:10]); err != nil {
			return Header{}, fmt.Errorf("%w: the header is cut short", ErrFormat)
		}
		size = int64(binary.LittleEndian.Uint16(b[8:10]))
	case 2, 3:
		if _, err := io.ReadFull(r, b[8:12]); err != nil {
			return Header{}, fmt.Errorf("%w: the header is cut short", ErrFormat)
		}
		size = int64(binary.LittleEndian.Uint32(b[8:12]))
	default:
		return Header{}, fmt.Errorf("%w: version %d.%d", ErrFormat, b[6], b[7])
	}
	if size > maxHeader {
		return Header{}, fmt.Errorf("%w: a header of %d bytes", ErrFormat, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return Header{}, fmt.Errorf("%w: the header is cut short", ErrFormat)
	}
	return parseHeader(string(text))
}

// parseHeader reads a Python dictionary of exactly the keys descr, fortran_order and shape, in any order.
func parseHeader(text string) (Header, error) {
	var h Header
	p := parser{rest: text}
	seen := 0
	p.expect('{')
	for p.err == nil && !p.take('}') {
		key := p.quoted()
		p.expect(':')
		switch key {
		case "descr":
			h.Descr = p.quoted()
			seen |= 1
		case "fortran_order":
			h.Fortran = p.boolean()
			seen |= 2
		case "shape":
			h.Shape = p.tuple()
			seen |= 4
		default:
			p.fail("key %q", key)
		}
		if !p.take(',') {
			p.expect('}')
			break
		}
	}
	if p.err == nil && (seen != 7 || strings.TrimSpace(p.rest) != "") {
		p.fail("keys are missing, or something follows them")
	}
	if p.err != nil {
		return Header{}, fmt.Errorf("%w: header %.100q: %w", ErrFormat, strings.TrimSpace(text), p.err)
	}
	return h, h.resolve()
}

// timeUnits are the units of dates ("M8") and durations ("m8") that are read, as NumPy writes them.
var timeUnits = map[string]string{"[D]": "d", "[s]": "s", "[ms]": "ms", "[us]": "us", "[ns]": "ns"}

// resolve derives kind, width and number of elements.
func (h *Header) resolve() error {
	order, code := byte('|'), h.Descr
	if code != "" && strings.IndexByte("<>=|", code[0]) >= 0 {
		order, code = code[0], code[1:]
	}
	h.bigEndian = order == '>'
	if code == "" {
		return fmt.Errorf("%w: element type %q", ErrFormat, h.Descr)
	}
	if h.Unit = timeUnits[strings.TrimPrefix(strings.ToUpper(code[:1])+code[1:], "M8")]; h.Unit != "" {
		code = "i8"
	}
	n := int64(0)
	if len(code) > 1 {
		var err error
		if n, err = strconv.ParseInt(code[1:], 10, 32); err != nil || n < 0 || n > 1<<30 {
			h.Kind = Foreign
			return h.count()
		}
	}
	h.Width = n
	switch d := unified.ParseNumPy(code); {
	case d != unified.Invalid:
		h.DType = d
		if code == "b1" {
			h.Kind = Bool
		}
	case code[0] == 'U':
		h.Kind, h.Width = Text, 4*n
	case code[0] == 'S' || code[0] == 'a':
		h.Kind = Bytes
	case code[0] == 'O':
		h.Kind, h.Width = Object, 0
	default:
		h.Kind = Foreign
	}
	return h.count()
}

func (h *Header) count() error {
	if len(h.Shape) > maxRank {
		return fmt.Errorf("%w: %d dimensions", ErrFormat, len(h.Shape))
	}
	n := uint64(1)
	for _, d := range h.Shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<62 {
			return fmt.Errorf("%w: shape %v is too large", ErrFormat, h.Shape)
		}
		n = lo
	}
	if hi, lo := bits.Mul64(n, uint64(max(h.Width, 1))); hi != 0 || lo > 1<<62 {
		return fmt.Errorf("%w: shape %v is too large", ErrFormat, h.Shape)
	}
	h.elements = int64(n)
	return nil
}

// parser walks over the text of a header. After the first failure it returns zeros.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *parser) skip() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *parser) take(c byte) bool {
	p.skip()
	if p.err != nil || p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) expect(c byte) {
	if !p.take(c) {
		p.fail("%q is missing", c)
	}
}

// quoted reads a string without escapes, in either kind of quotes.
func (p *parser) quoted() string {
	for _, q := range []byte{'\'', '"'} {
		if !p.take(q) {
			continue
		}
		end := strings.IndexByte(p.rest, q)
		if end < 0 || strings.ContainsAny(p.rest[:end], "\\\n") {
			p.fail("a string does not end")
			return ""
		}
		s := p.rest[:end]
		p.rest = p.rest[end+1:]
		return s
	}
	p.fail("a string is missing (records are not supported)")
	return ""
}

func (p *parser) boolean() bool {
	p.skip()
	for _, word := range []string{"True", "False"} {
		if rest, ok := strings.CutPrefix(p.rest, word); ok {
			p.rest = rest
			return word == "True"
		}
	}
	p.fail("neither True nor False")
	return false
}

// tuple reads (), (3,) or (3, 4), with or without Python 2's L.
func (p *parser) tuple() []int64 {
	var shape []int64
	p.expect('(')
	for p.err == nil && !p.take(')') {
		p.skip()
		n := 0
		for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
			n++
		}
		v, err := strconv.ParseInt(p.rest[:n], 10, 64)
		if err != nil {
			p.fail("a length is missing or too large")
			return nil
		}
		p.rest = strings.TrimPrefix(p.rest[n:], "L")
		shape = append(shape, v)
		if !p.take(',') {
			p.expect(')')
			break
		}
	}
	return shape
}

// WriteHeader writes what stands before the elements of an array in row-major order, in version 1 of the format, or 2
// where it is long. The shape of a scalar is nil.
func WriteHeader(w io.Writer, descr string, shape []int64) error {
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	tuple := strings.TrimSuffix(dims.String(), " ")
	if len(shape) > 1 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	head := []byte(magic + "\x01\x00")
	if len(text) > 1<<15 {
		return fmt.Errorf("an array of %d dimensions", len(shape))
	}
	text += strings.Repeat(" ", 63-(len(head)+2+len(text))%64) + "\n"
	head = binary.LittleEndian.AppendUint16(head, uint16(len(text)))
	_, err := w.Write(append(head, text...))
	return err
}

// ErrFormat is returned for bytes that are no .npy array.
var ErrFormat = errors.New("not a .npy array")

// ErrObject is returned for the elements of an array of Python objects.
var ErrObject = errors.New("an array of Python objects, which is never executed")

// ErrType is returned for elements of a type that khop has no use for, or that the caller cannot take.
var ErrType = errors.New("unsupported element type")

// Kind says what an array's elements are.
type Kind uint8

// The kinds of elements. Numbers have a dtype, which for Bool is uint8.
const (
	Number  Kind = iota
	Bool         // a byte that is 0 or 1
	Text         // Unicode strings of fixed width, padded by zeros
	Bytes        // byte strings of fixed width, padded by zeros
	Object       // pickled
	Foreign      // complex numbers, records
)

// Header describes an array.
type Header struct {
	Descr   string // NumPy's name of the element type, such as "<f4"
	Kind    Kind
	DType   unified.DType // Invalid unless Number or Bool
	Width   int64         // bytes of an element; 0 for Object
	Shape   []int64       // nil for a scalar
	Fortran bool          // column-major
	Unit    string        // of dates and durations, as graph.Column has it, and "d" for days

	bigEndian bool
	elements  int64
}

// Elements returns the number of elements.
func (h *Header) Elements() int64 { return h.elements }

// Bytes returns what the elements take in the file.
func (h *Header) Bytes() int64 { return h.elements * h.Width }

// String describes the array: "<f4 (3, 4)".
func (h *Header) String() string {
	return h.Descr + " (" + strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Shape), " ", ", "), "[]") + ")"
}

// New describes an array of numbers, row-major unless fortran; bools are of type unified.Uint8. ErrFormat where
// the shape holds more than can be counted.
func New(d unified.DType, shape []int64, bools, fortran bool) (Header, error) {
	h := Header{Descr: d.String(), DType: d, Width: d.Size(), Shape: shape, Fortran: fortran, elements: 1}
	if bools {
		h.Descr, h.Kind = "bool", Bool
	}
	for _, n := range shape {
		if n < 0 || n > 0 && h.elements > (1<<60)/n/max(h.Width, 1) {
			return h, fmt.Errorf("%w: the shape %v", ErrFormat, shape)
		}
		h.elements *= n
	}
	return h, nil
}
