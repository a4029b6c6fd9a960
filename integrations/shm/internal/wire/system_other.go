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

// Socket is not there on this system: what is named here does nothing, or returns errors.ErrUnsupported.
type Socket struct{}

func Listen(string) (*net.UnixListener, func() error, error) { return nil, nil, errSystem }
func Dial(context.Context, string) (*Socket, error)          { return nil, errSystem }
func NewSocket(c *net.UnixConn) (*Socket, error)             { return nil, errors.Join(errSystem, c.Close()) }
func (s *Socket) Send([]byte, int, time.Duration) error      { return errSystem }
func (s *Socket) Receive(context.Context, time.Time, []byte) (int, int, error) {
	return 0, -1, errSystem
}
func (s *Socket) Peer() (uint32, int, error)       { return 0, 0, errSystem }
func (s *Socket) CloseRead()                       {}
func (s *Socket) Ended() bool                      { return true }
func (s *Socket) AwaitEnd(context.Context) error   { return errSystem }
func (s *Socket) Close() error                     { return nil }
func IsBroken(error) bool                          { return false }
func CloseDescriptor(int)                          {}
func newOwnMemory(int64) (*Memory, error)          { return nil, errSystem }
func newHostMemory(int64, Access) (*Memory, error) { return nil, errSystem }
func openHostMemory(Segment, int) (*Memory, error) { return nil, errSystem }
func (m *Memory) Own(int, int) error               { return errSystem }
