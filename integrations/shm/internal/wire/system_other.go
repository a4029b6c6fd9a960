//go:build !linux

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// errSystem says that only Linux seals memory and hands it over.
var errSystem = fmt.Errorf("the feed: %w: it needs Linux", errors.ErrUnsupported)

// Socket is not there on this system.
type Socket struct{}

// Listen returns errors.ErrUnsupported, as all that follows does.
func Listen(string) (*net.UnixListener, func() error, error) { return nil, nil, errSystem }

// Dial returns errors.ErrUnsupported.
func Dial(context.Context, string) (*Socket, error) { return nil, errSystem }

// NewSocket returns errors.ErrUnsupported.
func NewSocket(c *net.UnixConn) (*Socket, error) { return nil, errors.Join(errSystem, c.Close()) }

// Send returns errors.ErrUnsupported.
func (s *Socket) Send([]byte, int, time.Duration) error { return errSystem }

// Receive returns errors.ErrUnsupported.
func (s *Socket) Receive(context.Context, time.Time, []byte) (int, int, error) {
	return 0, -1, errSystem
}

// Peer returns errors.ErrUnsupported.
func (s *Socket) Peer() (uint32, int, error) { return 0, 0, errSystem }

// CloseRead does nothing.
func (s *Socket) CloseRead() {}

// Ended reports true.
func (s *Socket) Ended() bool { return true }

// Close does nothing.
func (s *Socket) Close() error { return nil }

// IsBroken reports false.
func IsBroken(error) bool { return false }

// CloseDescriptor does nothing.
func CloseDescriptor(int) {}

func newHostMemory(int64, Access) (*Memory, error) { return nil, errSystem }
func openHostMemory(Segment, int) (*Memory, error) { return nil, errSystem }
