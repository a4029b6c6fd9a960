// Package mergetrace makes one Chrome trace of several, of khop and of other programs.
package mergetrace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/internal/tracefile"
)

// ErrTrace is returned for a file that is no Chrome trace.
var ErrTrace = errors.New("not a Chrome trace")

// mostEvent is how many bytes an event may have.
const mostEvent = 4 << 20

// Trace is a Chrome trace of any program, such as torch's profiler. It is read once more where it lies.
type Trace struct {
	Name string // for errors
	Base int64  // nanoseconds since 1970 that its times count from
	open func() (io.ReadCloser, error)
}

// Read reads a Chrome trace, an event at a time: an object with traceEvents, or a list of events. Errors: ErrTrace.
func Read(name string, open func() (io.ReadCloser, error)) (*Trace, error) {
	t := &Trace{Name: name, open: open}
	base, err := t.each(func(int, json.RawMessage) error { return nil })
	t.Base = base
	return t, err
}

// each calls do for each event, which is valid during the call, and returns the trace's base. Errors have its name.
func (t *Trace) each(do func(n int, event json.RawMessage) error) (base int64, err error) {
	in, err := t.open()
	if err == nil {
		r := &reader{from: in, do: do}
		r.d = json.NewDecoder(r)
		base, err = r.trace()
		err = errors.Join(err, in.Close())
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.Name, err)
	}
	return base, nil
}

// reader reads a trace as it comes, of which no event may be long.
type reader struct {
	from io.Reader
	d    *json.Decoder
	left int // that may be read before another event begins
	do   func(n int, event json.RawMessage) error
	why  error // that from could not be read
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("%w: an event has more than %d bytes", ErrTrace, mostEvent)
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	if r.left -= n; err != nil && err != io.EOF {
		r.why = err
	}
	return n, err
}

// token returns the next token.
func (r *reader) token() (json.Token, error) {
	r.left = mostEvent
	return r.d.Token()
}

// trace reads all of it.
func (r *reader) trace() (base int64, err error) {
	found := false
	switch first, err := r.token(); {
	case err != nil:
		return 0, r.explain(err)
	case first == json.Delim('['):
		found, err = true, r.events()
		if err != nil {
			return 0, err
		}
	case first == json.Delim('{'):
		for r.d.More() {
			if err := r.field(&base, &found); err != nil {
				return 0, err
			}
		}
		if _, err := r.token(); err != nil {
			return 0, r.explain(err)
		}
	}
	if !found {
		return 0, fmt.Errorf("%w: it has no traceEvents", ErrTrace)
	}
	if _, err := r.token(); err != io.EOF {
		return 0, fmt.Errorf("%w: something follows it", ErrTrace)
	}
	return base, nil
}

// field reads a field of a trace.
func (r *reader) field(base *int64, found *bool) error {
	name, err := r.token()
	if err != nil {
		return r.explain(err)
	}
	if name == "baseTimeNanoseconds" {
		return r.explain(r.d.Decode(base))
	}
	for depth := 0; ; {
		value, err := r.token()
		if err != nil {
			return r.explain(err)
		}
		switch value {
		case json.Delim('['), json.Delim('{'):
			if depth++; depth == 1 && name == "traceEvents" && value == json.Delim('[') {
				*found = true
				return r.events()
			}
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// events reads the events of a list, and its end.
func (r *reader) events() error {
	var event json.RawMessage
	for n := 0; r.d.More(); n++ {
		r.left = mostEvent
		if err := r.d.Decode(&event); err != nil {
			return r.explain(err)
		}
		if err := r.do(n, event); err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
	}
	_, err := r.token()
	return r.explain(err)
}

// explain says what an error of the decoder means.
func (r *reader) explain(err error) error {
	if r.why != nil {
		return r.why
	}
	if err == nil || errors.Is(err, ErrTrace) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTrace, err)
}

// Merge writes one trace of several, whose times count from the latest of their bases.
func Merge(to io.Writer, traces []*Trace) error {
	base := int64(0)
	for _, t := range traces {
		base = max(base, t.Base)
	}
	w := tracefile.NewWriter(to, base)
	for i, t := range traces {
		if _, err := t.each(func(_ int, event json.RawMessage) error {
			moved, err := move(event, t.Base-base, uint64(i)<<32)
			if err == nil {
				w.Event(moved)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return w.End()
}

// move returns an event whose time is later by nanoseconds. Arrows of khop's get other numbers, so that those of two
// traces differ.
func move(event json.RawMessage, later int64, ids uint64) ([]byte, error) {
	var e struct {
		Category any             `json:"cat"`
		Time     json.RawMessage `json:"ts"`
		ID       json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	ours := e.Category == "khop" && e.ID != nil && ids > 0
	if (later == 0 || e.Time == nil) && !ours {
		return event, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(event, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	if later != 0 && e.Time != nil {
		at, err := nanoseconds(e.Time)
		if err != nil {
			return nil, err
		}
		fields["ts"] = tracefile.Micros(nil, at+later)
	}
	if ours {
		id, err := strconv.ParseUint(string(e.ID), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: the id %s of an arrow", ErrTrace, e.ID)
		}
		fields["id"] = strconv.AppendUint(nil, id+ids, 10)
	}
	return json.Marshal(fields)
}

// nanoseconds reads microseconds with decimals, exactly: as a float, those since 1970 would lose some.
func nanoseconds(text json.RawMessage) (int64, error) {
	text = bytes.Trim(text, `"`)
	whole, part, _ := bytes.Cut(text, []byte("."))
	decimals := string(append(slices.Clone(part[:min(len(part), 3)]), "000"[min(len(part), 3):]...))
	n, err := strconv.ParseInt(string(whole)+decimals, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(f > -9e15 && f < 9e15) {
			return 0, fmt.Errorf("%w: the time %s", ErrTrace, text)
		}
		n = int64(f * 1e3)
	}
	return n, nil
}
