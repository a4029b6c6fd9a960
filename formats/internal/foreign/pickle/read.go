package pickle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/pinned"
)

// ErrFormat is returned for bytes that are no pickle.
var ErrFormat = errors.New("not a pickle, or a damaged one")

// ErrForbidden is returned for a pickle that asks for a function or class that is not plain data.
var ErrForbidden = errors.New("the pickle asks for a name that may run code")

// The kinds of values beside nil, bool, int64, *big.Int, float64, string, []byte:
type (
	// List is a list, or a set.
	List struct{ Items []any }
	// Tuple is a tuple.
	Tuple []any
	// Dict is a dictionary, in the order of its keys.
	Dict struct {
		Keys, Values []any
		index        map[any]int
	}
	// Name is a class or function: "numpy.ndarray". It is never called.
	Name string
	// Object is what calling a name with arguments would make, and the state that it would be given.
	Object struct {
		Class Name
		Args  Tuple
		State any
		Items []any // appended, or set by key: pairs
	}
	// Persistent is a reference to something outside of the pickle.
	Persistent struct{ ID any }
)

// Get returns the value of a key that is a string, a number or a bool.
func (d *Dict) Get(key any) (any, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.Values[i], true
}

func (d *Dict) set(key, value any) {
	if b, ok := key.([]byte); ok { // of Python 2
		key = string(b)
	}
	switch key.(type) {
	case string, int64, bool, float64, nil:
		if i, ok := d.index[key]; ok {
			d.Values[i] = value
			return
		}
		if d.index == nil {
			d.index = map[any]int{}
		}
		d.index[key] = len(d.Keys)
	}
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
}

// maxDepth bounds the instructions' stack of marks, maxLine a line of text.
const (
	maxDepth = 1 << 12
	maxLine  = 1 << 16
)

// Read reads one pickle, and leaves r behind it. names says which names may stand in it besides those that Array knows;
// nil for none. Memory is counted in l, and stays counted. Errors are ErrFormat, ErrForbidden, pinned.ErrLimit.
func Read(r *bufio.Reader, names func(Name) bool, l *pinned.Ledger) (any, error) {
	m := &machine{r: r, names: names, ledger: l, memo: map[uint64]any{}}
	v, err := m.run()
	if err != nil {
		return nil, fmt.Errorf("at instruction %d: %w", m.count, err)
	}
	return v, nil
}

// machine goes over a pickle.
type machine struct {
	r      *bufio.Reader
	names  func(Name) bool
	ledger *pinned.Ledger
	stack  []any
	marks  []int
	memo   map[uint64]any
	count  int
}

// elementBytes is what a value takes, about.
const elementBytes = 48

func (m *machine) take(n int64) error { return m.ledger.Take(pinned.Sources, n) }

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

func (m *machine) pop() (any, error) {
	base := 0
	if len(m.marks) > 0 {
		base = m.marks[len(m.marks)-1]
	}
	if len(m.stack) <= base {
		return nil, fmt.Errorf("%w: nothing is on the stack", ErrFormat)
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

func (m *machine) top() (any, error) {
	v, err := m.pop()
	if err == nil {
		m.push(v)
	}
	return v, err
}

// toMark takes everything above the last mark.
func (m *machine) toMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, fmt.Errorf("%w: no mark is on the stack", ErrFormat)
	}
	at := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := append([]any(nil), m.stack[at:]...)
	m.stack = m.stack[:at]
	return items, nil
}

func (m *machine) run() (any, error) {
	for {
		op, err := m.r.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("%w: it ends without a result", ErrFormat)
		}
		if m.count++; m.count%64 == 0 { // values are small: they are counted by the instruction
			if err := m.take(64 * elementBytes); err != nil {
				return nil, err
			}
		}
		if op == '.' {
			return m.pop()
		}
		f := instructions[op]
		if f == nil {
			return nil, fmt.Errorf("%w: instruction %q", ErrFormat, op)
		}
		if err := f(m); err != nil {
			return nil, err
		}
	}
}

// bytes reads n bytes, and takes memory as they arrive.
func (m *machine) bytes(n uint64) ([]byte, error) {
	if n > math.MaxInt64/2 {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, n)
	}
	if err := m.take(int64(n)); err != nil {
		return nil, err
	}
	room := min(n, 1<<20)
	b := make([]byte, 0, room)
	for uint64(len(b)) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 2*uint64(cap(b)))), b...)
		}
		k, err := io.ReadFull(m.r, b[len(b):min(uint64(cap(b)), n)])
		b = b[:len(b)+k]
		if err != nil {
			return nil, fmt.Errorf("%w: %d of %d bytes are there", ErrFormat, len(b), n)
		}
	}
	return b, nil
}

// number reads an unsigned number of 1, 2, 4 or 8 bytes.
func (m *machine) number(width int) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(m.r, b[:width]); err != nil {
		return 0, fmt.Errorf("%w: it is cut short", ErrFormat)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (m *machine) line() (string, error) {
	var b []byte
	for len(b) < maxLine {
		c, err := m.r.ReadByte()
		if err != nil {
			break
		}
		if c == '\n' {
			return string(b), nil
		}
		b = append(b, c)
	}
	return "", fmt.Errorf("%w: a line does not end", ErrFormat)
}

// data pushes bytes of which the length is a number of that width.
func data(width int, as func(b []byte) any) func(*machine) error {
	return func(m *machine) error {
		n, err := m.number(width)
		if err != nil {
			return err
		}
		b, err := m.bytes(n)
		if err != nil {
			return err
		}
		m.push(as(b))
		return nil
	}
}

func asBytes(b []byte) any { return b }

// asText keeps what is no UTF-8, as Python's surrogates, byte by byte.
func asText(b []byte) any { return string(b) }

func asLong(b []byte) any {
	v := new(big.Int)
	slices.Reverse(b)
	v.SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if v.IsInt64() {
		return v.Int64()
	}
	return v
}

func integer(width int, signed bool) func(*machine) error {
	return func(m *machine) error {
		v, err := m.number(width)
		if signed {
			v = uint64(int64(int32(v)))
		}
		m.push(int64(v))
		return err
	}
}

func constant(make func() any) func(*machine) error {
	return func(m *machine) error { m.push(make()); return nil }
}

// memoize keeps the top of the stack.
func (m *machine) memoize(at uint64) error {
	v, err := m.top()
	m.memo[at] = v
	return err
}

// keyed does something with what is kept by a number: one of width bytes, or a line where width is 0.
func keyed(width int, do func(m *machine, at uint64) error) func(*machine) error {
	return func(m *machine) error {
		if width == 0 {
			at, err := m.lineNumber()
			if err != nil {
				return err
			}
			return do(m, uint64(at))
		}
		at, err := m.number(width)
		if err != nil {
			return err
		}
		return do(m, at)
	}
}

func (m *machine) recall(at uint64) error {
	v, ok := m.memo[at]
	if !ok {
		return fmt.Errorf("%w: nothing was kept as %d", ErrFormat, at)
	}
	m.push(v)
	return nil
}

// name pushes a name, if it is allowed.
func (m *machine) name(module, name string) error {
	n := Name(module + "." + name)
	if !known[n] && (m.names == nil || !m.names(n)) {
		return fmt.Errorf("%w: %.120q; it was not run", ErrForbidden, string(n))
	}
	m.push(n)
	return nil
}

// lineNumber reads a number in decimal digits.
func (m *machine) lineNumber() (int64, error) {
	s, err := m.line()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(s, "L"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %.40q is not a number", ErrFormat, s)
	}
	return v, nil
}

// popping does something with the n values on top, of which the last was the top.
func popping(n int, do func(m *machine, v []any) error) func(*machine) error {
	return func(m *machine) (err error) {
		v := make([]any, n)
		for i := n - 1; i >= 0 && err == nil; i-- {
			v[i], err = m.pop()
		}
		if err != nil {
			return err
		}
		return do(m, v)
	}
}

// marked does something with what lies above the last mark.
func marked(do func(m *machine, v []any) error) func(*machine) error {
	return func(m *machine) error {
		v, err := m.toMark()
		if err != nil {
			return err
		}
		return do(m, v)
	}
}

// unquote returns the bytes of a quoted text, in the form of STRING.
func unquote(s string) (any, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return nil, fmt.Errorf("%w: string %.40q", ErrFormat, s)
	}
	s = s[1 : len(s)-1]
	var b []byte
	for s != "" {
		c, wide, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil && s[0] == '\\' && len(s) > 1 && (s[1] == '\'' || s[1] == '"') {
			c, wide, rest = rune(s[1]), false, s[2:]
		} else if err != nil {
			return nil, fmt.Errorf("%w: string %.40q", ErrFormat, s)
		}
		if s = rest; wide {
			b = utf8.AppendRune(b, c)
		} else {
			b = append(b, byte(c))
		}
	}
	return b, nil
}

// ReadTorch reads what torch.save has written in its old layout: some pickles that say so, then the one of the value.
// Tensors of torch lie outside of it, and are not read.
func ReadTorch(r *bufio.Reader, l *pinned.Ledger) (any, error) {
	for range 3 { // magic number, version, sizes
		if _, err := Read(r, nil, l); err != nil {
			return nil, err
		}
	}
	return Read(r, nil, l)
}

// LooksLikeTorch reports whether a file's first bytes are those of torch.save's old layout.
func LooksLikeTorch(head []byte) bool {
	// head may be a whole file, which a string would copy
	return bytes.HasPrefix(head, []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."))
}
