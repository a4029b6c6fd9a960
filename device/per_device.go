package device

import (
	"io"
	"sync"
)

// PerDevice holds one T for each device as long as it has users. It is for kernels, which take long to load and are the
// same for all users. All Devices of an ordinal share a T. The zero value is ready, and safe for concurrent use.
type PerDevice[T io.Closer] struct {
	mu sync.Mutex
	by map[*primary]*held[T]
}

type held[T any] struct {
	value T
	users int
}

// Hold returns the T of the device. The first Hold makes it by load. Each Hold needs a LetGo, before d is closed. The T
// may outlive d, so it must not keep d.
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

// LetGo ends one Hold of the device. The last one closes the T.
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
