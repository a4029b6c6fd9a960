//go:build !linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

var (
	errBrokenPipe = errSystem
	errReset      = errSystem
)

// errSystem is what everything returns here: sealed memory and its hand-over are Linux's.
var errSystem = fmt.Errorf("the feed: %w: it needs Linux", errors.ErrUnsupported)

type socket struct{}

func newSocket(c *net.UnixConn) (*socket, error)        { return nil, errors.Join(errSystem, c.Close()) }
func (s *socket) send([]byte, int, time.Duration) error { return errSystem }
func (s *socket) peer() (uint32, int, error)            { return 0, 0, errSystem }
func (s *socket) closeRead()                            {}
func (s *socket) ended() bool                           { return true }
func (s *socket) close() error                          { return nil }
func closeDescriptor(int)                               {}
func newSegment(int64, access) (*segment, error)        { return nil, errSystem }
func openSegment(int, segmentNote) (*segment, error)    { return nil, errSystem }
func (s *segment) close() error                         { return nil }
func (s *socket) receive(context.Context, time.Time, []byte) (int, int, error) {
	return 0, -1, errSystem
}

func listen(string) (*net.UnixListener, func() error, error) { return nil, nil, errSystem }
func dial(context.Context, string) (*socket, error)          { return nil, errSystem }

// WatchProcess does nothing here.
func WatchProcess(pid int, gone func()) (stop func()) { return func() {} }
