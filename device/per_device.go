package device

import (
	"io"
	"sync"
)

// PerDevice holds one T for each device while anybody uses it: kernels, which take long to load and are the same for
// all. All Devices of an ordinal share it. The zero value is ready, and safe for concurrent use.
type PerDevice[T io.Closer] struct {
	mu sync.Mutex
	by map[*primary]*held[T]
}

type held[T any] struct {
	value T
	users int
}

// Hold returns what an earlier Hold has made for the device, or what load makes of it now. Each Hold needs a LetGo,
// before d is closed. What load made may outlive d, so it must not keep d.
func (s *PerDevice[T]) Hold(d *Device, load func(*Device) (T, error)) (value T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.by[d.primary]
	if have == nil {
		if value, err = load(d); err != nil {
			return value, err
		}
		if s.by == nil {
			s.by = map[*primary]*held[T]{}
		}
		have = &held[T]{value: value}
		s.by[d.primary] = have
	}
	have.users++
	return have.value, nil
}

// LetGo ends one Hold of the device, and closes the T with the last.
func (s *PerDevice[T]) LetGo(d *Device) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.by[d.primary]
	if have.users--; have.users > 0 {
		return nil
	}
	delete(s.by, d.primary)
	return have.value.Close()
}
