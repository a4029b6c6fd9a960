package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// instructions are what the machine knows, by their byte.
var instructions [256]func(*machine) error

func init() {
	for _, group := range []map[byte]func(*machine) error{plain, objects} {
		for op, f := range group {
			instructions[op] = f
		}
	}
}

// plain are the instructions of numbers, strings, the stack and what is kept.
var plain = map[byte]func(*machine) error{
	'\x80': func(m *machine) error { // PROTO
		v, err := m.number(1)
		if v > 5 {
			return fmt.Errorf("%w: protocol %d", ErrFormat, v)
		}
		return err
	},
	'\x95': func(m *machine) error { _, err := m.number(8); return err }, // FRAME
	'(': func(m *machine) error {
		if m.marks = append(m.marks, len(m.stack)); len(m.marks) > maxDepth {
			return fmt.Errorf("%w: %d marks", ErrFormat, len(m.marks))
		}
		return nil
	},
	'0': func(m *machine) error { // POP
		if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
			m.marks = m.marks[:n-1]
			return nil
		}
		_, err := m.pop()
		return err
	},
	'1': func(m *machine) error { _, err := m.toMark(); return err },
	'2': func(m *machine) error { v, err := m.top(); m.push(v); return err },

	'N': constant(func() any { return nil }), '\x88': constant(func() any { return true }),
	'\x89': constant(func() any { return false }), ']': constant(func() any { return &List{} }),
	')': constant(func() any { return Tuple{} }), '}': constant(func() any { return &Dict{} }),
	'\x8f': constant(func() any { return &List{} }),
	'K':    integer(1, false), 'M': integer(2, false), 'J': integer(4, true),
	'I': func(m *machine) error {
		s, err := m.line()
		if err == nil && (s == "00" || s == "01") {
			m.push(s == "01")
			return nil
		}
		v, perr := strconv.ParseInt(s, 10, 64)
		if err == nil && perr != nil {
			err = fmt.Errorf("%w: %.40q is not a number", ErrFormat, s)
		}
		m.push(v)
		return err
	},
	'L': func(m *machine) error { v, err := m.lineNumber(); m.push(v); return err },
	'F': func(m *machine) error {
		s, err := m.line()
		v, perr := strconv.ParseFloat(s, 64)
		if err == nil && perr != nil {
			err = fmt.Errorf("%w: %.40q is not a number", ErrFormat, s)
		}
		m.push(v)
		return err
	},
	'G': func(m *machine) error {
		b, err := m.bytes(8)
		if err == nil {
			m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
		return err
	},
	'\x8a': data(1, asLong), '\x8b': data(4, asLong),
	'U': data(1, asBytes), 'T': data(4, asBytes), 'C': data(1, asBytes), 'B': data(4, asBytes),
	'\x8e': data(8, asBytes), '\x96': data(8, asBytes),
	'X': data(4, asText), '\x8c': data(1, asText), '\x8d': data(8, asText),
	'S': func(m *machine) error {
		s, err := m.line()
		if err != nil {
			return err
		}
		v, err := unquote(s)
		m.push(v)
		return err
	},
	'V': func(m *machine) error { s, err := m.line(); m.push(s); return err },

	'p': keyed(0, (*machine).memoize), 'q': keyed(1, (*machine).memoize), 'r': keyed(4, (*machine).memoize),
	'\x94': func(m *machine) error { return m.memoize(uint64(len(m.memo))) },
	'g':    keyed(0, (*machine).recall), 'h': keyed(1, (*machine).recall), 'j': keyed(4, (*machine).recall),
}

// objects are the instructions that build collections and objects.
var objects = map[byte]func(*machine) error{
	'\x85': popping(1, tuple), '\x86': popping(2, tuple), '\x87': popping(3, tuple), 't': marked(tuple),
	'l': marked(list), '\x91': marked(list),
	'd': marked(func(m *machine, v []any) error {
		d := &Dict{}
		m.push(d)
		return m.setPairs(d, v)
	}),
	'a': popping(1, (*machine).append), 'e': marked((*machine).append), '\x90': marked((*machine).append),
	's': popping(2, (*machine).setItems), 'u': marked((*machine).setItems),
	'c': func(m *machine) error {
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.name(module, name)
	},
	'\x93': popping(2, func(m *machine, v []any) error { // STACK_GLOBAL
		from, ok := v[0].(string)
		what, both := v[1].(string)
		if !ok || !both {
			return fmt.Errorf("%w: a name that is not a string", ErrFormat)
		}
		return m.name(from, what)
	}),
	'R': popping(2, (*machine).call), '\x81': popping(2, (*machine).call),
	'b': func(m *machine) error {
		state, err := m.pop()
		if err != nil {
			return err
		}
		top, err := m.top()
		if err != nil {
			return err
		}
		o, ok := top.(*Object)
		if !ok {
			return fmt.Errorf("%w: a state for no object", ErrFormat)
		}
		o.State = state
		return nil
	},
	'Q': func(m *machine) error { v, err := m.pop(); m.push(&Persistent{v}); return err },
}

func tuple(m *machine, v []any) error { m.push(Tuple(v)); return nil }

func list(m *machine, v []any) error { m.push(&List{Items: v}); return nil }

func (m *machine) setPairs(d *Dict, v []any) error {
	if len(v)%2 != 0 {
		return fmt.Errorf("%w: a key without a value", ErrFormat)
	}
	for i := 0; i < len(v); i += 2 {
		if b, ok := v[i].([]byte); ok { // it is copied
			if err := m.take(int64(len(b))); err != nil {
				return err
			}
		}
		d.set(v[i], v[i+1])
	}
	return nil
}

// append adds to the list, or list-like object, on the stack.
func (m *machine) append(v []any) error {
	top, err := m.top()
	switch l := top.(type) {
	case *List:
		l.Items = append(l.Items, v...)
	case *Object:
		l.Items = append(l.Items, v...)
	default:
		if err == nil {
			err = fmt.Errorf("%w: items without a list", ErrFormat)
		}
	}
	return err
}

func (m *machine) setItems(v []any) error {
	top, err := m.top()
	switch d := top.(type) {
	case *Dict:
		return m.setPairs(d, v)
	case *Object:
		d.Items = append(d.Items, v...)
	default:
		if err == nil {
			err = fmt.Errorf("%w: values without a dictionary", ErrFormat)
		}
	}
	return err
}

// call makes an object of a name and its arguments. It calls nothing.
func (m *machine) call(of []any) error {
	n, ok := of[0].(Name)
	t, tuple := of[1].(Tuple)
	if !ok || !tuple {
		return fmt.Errorf("%w: a call of something that is not a name", ErrFormat)
	}
	v, err := m.build(n, t)
	m.push(v)
	return err
}
