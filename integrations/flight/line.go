package flight

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// patience is how long a server may take for one answer.
const patience = 20 * time.Second

// line is a stream of requests for rows of one column to one of the servers that have a part of its ids.
type line struct {
	rows         *Rows
	column, part int
	server       int // of the replicas: the one that answers

	client flight.Client
	stream flight.FlightService_DoExchangeClient
	answer *flight.Reader
	cancel context.CancelFunc
}

// fetch brings the rows of ids at some places there. Each replica has two tries, for a stream may have ended meanwhile.
func (l *line) fetch(ctx context.Context, ids []int64, places []int32, rows []byte) error {
	var failures []error
	for range 2 * len(l.rows.Servers[l.part]) {
		err := l.connect(ctx)
		if err == nil {
			if err = l.ask(ctx, ids, places, rows); err == nil {
				return nil
			}
		}
		l.close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l.rows.closed.Err() != nil {
			return context.Cause(l.rows.closed)
		}
		failures = append(failures, err)
		l.server = (l.server + 1) % len(l.rows.Servers[l.part])
	}
	return fmt.Errorf("%w of part %d: start one of %s, or name others: %w", ErrServers, l.part,
		strings.Join(l.rows.Servers[l.part], ", "), errors.Join(failures...))
}

// connect opens the stream, where there is none, and compares what the server has with what is wanted.
func (l *line) connect(ctx context.Context) (err error) {
	if l.stream != nil {
		return nil
	}
	defer func() {
		if err != nil {
			l.close()
			err = fmt.Errorf("%s: %w", l.rows.Servers[l.part][l.server], err)
		}
	}()
	security := l.rows.TLS
	if security == nil {
		security = insecure.NewCredentials()
	}
	l.client, err = flight.NewClientWithMiddleware(l.rows.Servers[l.part][l.server], nil, nil,
		grpc.WithTransportCredentials(security), grpc.WithReadBufferSize(1<<20), grpc.WithInitialWindowSize(16<<20),
		grpc.WithInitialConnWindowSize(64<<20),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostBytes), grpc.MaxCallSendMsgSize(mostBytes)))
	if err != nil {
		return err
	}
	var life context.Context
	life, l.cancel = context.WithCancel(l.rows.closed)
	if l.rows.Token != "" {
		life = metadata.AppendToOutgoingContext(life, "authorization", "Bearer "+l.rows.Token)
	}
	stop := l.guard(ctx)
	defer stop()
	if l.stream, err = l.client.DoExchange(life); err != nil {
		return err
	}
	c := &l.rows.columns[l.column]
	path := []string{c.Type, c.Name}
	err = l.stream.Send(&flight.FlightData{FlightDescriptor: &flight.FlightDescriptor{
		Type: flight.DescriptorPATH, Path: path}})
	if err != nil {
		return err
	}
	if l.answer, err = flight.NewRecordReader(l.stream); err != nil {
		return err
	}
	if !l.answer.Next() || l.answer.Record().NumRows() != 0 { // it came for the sake of its schema
		return errors.Join(errors.New("the server does not begin with an empty batch"), l.answer.Err())
	}
	return l.check()
}

// guard ends the stream where the server takes too long, or ctx ends.
func (l *line) guard(ctx context.Context) (stop func()) {
	cancel := l.cancel
	timer := time.AfterFunc(patience, cancel)
	end := context.AfterFunc(ctx, cancel)
	return func() {
		timer.Stop()
		end()
	}
}

// check compares what the server says of the column.
func (l *line) check() error {
	c, about := &l.rows.columns[l.column], l.answer.Schema().Metadata()
	from, to := part(c.Rows, l.part, len(l.rows.Servers))
	for _, want := range [][2]string{{"dataset", l.rows.dataset}, {"dtype", c.DType},
		{"shape", fmt.Sprint(c.Row)}, {"rows", strconv.FormatInt(c.Rows, 10)},
		{"first", strconv.FormatInt(from, 10)}, {"end", strconv.FormatInt(to, 10)}} {
		if got, _ := about.GetValue(want[0]); got != want[1] {
			return fmt.Errorf("%w: its %s of column %s is %q, not %q", ErrServers, want[0], c.Name, got, want[1])
		}
	}
	return nil
}

// ask sends requests of as many ids as an answer has room for, and puts the rows where they belong.
func (l *line) ask(ctx context.Context, ids []int64, places []int32, rows []byte) error {
	width := int(l.rows.columns[l.column].RowBytes)
	most := mostBytes / 2 / max(width, 8)
	for len(places) > 0 {
		some := places[:min(most, len(places))]
		places = places[len(some):]
		request := make([]byte, 8*len(some))
		for k, i := range some {
			binary.LittleEndian.PutUint64(request[8*k:], uint64(ids[i]))
		}
		if err := l.exchange(ctx, request, some, rows, width); err != nil {
			return fmt.Errorf("%s: %w", l.rows.Servers[l.part][l.server], err)
		}
	}
	return nil
}

func (l *line) exchange(ctx context.Context, request []byte, places []int32, rows []byte, width int) error {
	stop := l.guard(ctx)
	defer stop()
	if err := l.stream.Send(&flight.FlightData{AppMetadata: request}); err != nil {
		return err
	}
	if !l.answer.Next() {
		return errors.Join(errors.New("the server ended the stream"), l.answer.Err())
	}
	got, ok := l.answer.Record().Column(0).(*array.FixedSizeBinary)
	if !ok || got.Len() != len(places) || got.DataType().(interface{ Bytes() int }).Bytes() != width {
		return fmt.Errorf("an answer of %v, not of %d rows of %d bytes", l.answer.Record().Schema(), len(places), width)
	}
	for k, i := range places {
		copy(rows[int(i)*width:(int(i)+1)*width], got.Value(k))
	}
	return nil
}

// close ends the stream.
func (l *line) close() {
	if l.cancel != nil {
		l.cancel()
	}
	if l.answer != nil {
		l.answer.Release()
	}
	if l.client != nil {
		_ = l.client.Close()
	}
	l.client, l.stream, l.answer, l.cancel = nil, nil, nil, nil
}
