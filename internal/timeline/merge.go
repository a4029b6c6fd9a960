package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// ErrTrace is returned for a file that is no Chrome trace.
var ErrTrace = errors.New("not a Chrome trace")

// Trace is a Chrome trace of any program, such as torch's profiler.
type Trace struct {
	Base   int64 // nanoseconds since 1970 that its times count from
	Events []json.RawMessage
}

// Read reads a Chrome trace: an object with traceEvents, or a list of events. Errors: ErrTrace.
func Read(text []byte) (*Trace, error) {
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) > 0 && t[0] == '[' {
		var events []json.RawMessage
		if err := json.Unmarshal(text, &events); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTrace, err)
		}
		return &Trace{Events: events}, nil
	}
	var t struct {
		Base   int64             `json:"baseTimeNanoseconds"`
		Events []json.RawMessage `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	if t.Events == nil {
		return nil, fmt.Errorf("%w: it has no traceEvents", ErrTrace)
	}
	return &Trace{t.Base, t.Events}, nil
}

// Merge writes one trace of several, whose times count from the latest of their bases.
func Merge(to io.Writer, traces []*Trace) error {
	base := int64(0)
	for _, t := range traces {
		base = max(base, t.Base)
	}
	w := newWriter(to, base)
	for i, t := range traces {
		for n, event := range t.Events {
			moved, err := move(event, t.Base-base, uint64(i)<<32)
			if err != nil {
				return fmt.Errorf("event %d: %w", n, err)
			}
			w.begin()
			_, _ = w.Write(moved)
		}
	}
	return w.end()
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
		fields["ts"] = micros(nil, at+later)
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
