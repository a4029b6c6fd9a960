//go:build !linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
)

var (
	errBrokenPipe = errSystem
	errReset      = errSystem
)

// errSystem is what everything returns here: sealed memory and its hand-over are Linux's.
var errSystem = fmt.Errorf("the feed: %w: it needs Linux", errors.ErrUnsupported)

type socket struct{ conn *net.UnixConn }

func (s *socket) send([]byte, int) error             { return errSystem }
func (s *socket) trySend([]byte) error               { return errSystem }
func (s *socket) ended() bool                        { return true }
func (s *socket) receive([]byte) (int, int, error)   { return 0, -1, errSystem }
func (s *socket) close() error                       { return nil }
func (s *socket) peer() (uint32, int, error)         { return 0, 0, errSystem }
func closeDescriptor(int)                            {}
func newSegment(int64, access) (*segment, error)     { return nil, errSystem }
func openSegment(int, segmentNote) (*segment, error) { return nil, errSystem }
func (s *segment) close() error                      { return nil }

func listen(string) (*net.UnixListener, func() error, error) { return nil, nil, errSystem }
func dial(context.Context, string) (*socket, error)          { return nil, errSystem }

// WatchProcess does nothing here.
func WatchProcess(pid int, gone func()) (stop func()) { return func() {} }
