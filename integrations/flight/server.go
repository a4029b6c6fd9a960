package flight

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/unified"
)

// mostBytes is what a message has at most: ids of a request, rows of an answer.
const mostBytes = 256 << 20

// Server serves rows of a dataset. It reads mapped files, so the page cache keeps rows that are often requested.
type Server struct {
	Dataset *formats.Dataset
	// Part and Parts say which rows of each column the server has: of Parts equal ranges of ids number Part, from 0 on.
	// Parts 0 is one range.
	Part, Parts int
	// Token, if set, is the token that clients must present.
	Token string
	// TLS, if set, is the server's certificate. Without it, a token is allowed only at a local address.
	TLS credentials.TransportCredentials
}

// Serve serves requests on a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if at, ok := l.Addr().(*net.TCPAddr); s.Token != "" && s.TLS == nil && (!ok || !at.IP.IsLoopback()) {
		return fmt.Errorf("%w: a token goes over %s as it is: give a certificate", ErrOptions, l.Addr())
	}
	if s.Parts = max(s.Parts, 1); s.Part < 0 || s.Part >= s.Parts {
		return fmt.Errorf("%w: part %d of %d: must be 0 to %d", ErrOptions, s.Part, s.Parts, s.Parts-1)
	}
	opts := []grpc.ServerOption{grpc.MaxRecvMsgSize(mostBytes), grpc.MaxSendMsgSize(mostBytes),
		grpc.StreamInterceptor(s.admit), grpc.WriteBufferSize(1 << 20), grpc.InitialWindowSize(16 << 20),
		grpc.InitialConnWindowSize(64 << 20)}
	if s.TLS != nil {
		opts = append(opts, grpc.Creds(s.TLS))
	}
	g := grpc.NewServer(opts...)
	flight.RegisterFlightServiceServer(g, &service{Server: s})
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// admit refuses calls without the token.
func (s *Server) admit(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if s.Token != "" {
		said, _ := metadata.FromIncomingContext(stream.Context())
		shown := append(said.Get("authorization"), "")[0]
		if subtle.ConstantTimeCompare([]byte(shown), []byte("Bearer "+s.Token)) != 1 {
			return status.Error(codes.Unauthenticated, "the token is missing or wrong")
		}
	}
	return next(srv, stream)
}

// service is the part of Arrow Flight that a Server has.
type service struct {
	flight.BaseFlightServer
	*Server
}

// DoExchange answers requests for the rows of one column until the client has no more.
func (s *service) DoExchange(stream flight.FlightService_DoExchangeServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	column, err := s.column(first.GetFlightDescriptor().GetPath())
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	n, width := column.Len(), int(column.RowBytes())
	from, to := part(n, s.Part, s.Parts)
	w := flight.NewRecordWriter(stream, ipc.WithSchema(schemaOf(s.Dataset, column, from, to)))
	defer w.Close()
	if err := w.Write(recordOf(nil, width)); err != nil { // so that the schema goes out
		return err
	}
	for request := first; ; {
		if len(request.AppMetadata) > 0 {
			rows, err := gather(column, request.AppMetadata, from, to)
			if err != nil {
				return status.Error(codes.OutOfRange, err.Error())
			}
			if err := w.Write(recordOf(rows, width)); err != nil {
				return err
			}
		}
		if request, err = stream.Recv(); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
}

// column finds a column of the nodes of a type.
func (s *service) column(path []string) (unified.Tensor, error) {
	if len(path) != 2 {
		return unified.Tensor{}, fmt.Errorf("the path %q is not [node type, column]", path)
	}
	g := s.Dataset.Graph()
	for t := range g.Schema().Nodes {
		if g.Schema().Nodes[t].Name != path[0] {
			continue
		}
		if c, ok := g.NodeColumn(t, path[1]); ok {
			return c, nil
		}
	}
	return unified.Tensor{}, fmt.Errorf("the dataset has no column %q of nodes %q", path[1], path[0])
}

// part is the range of rows that one of several servers has.
func part(n int64, i, of int) (from, to int64) {
	each := (n + int64(of) - 1) / int64(of)
	return min(n, each*int64(i)), min(n, each*int64(i+1))
}

// gather copies the rows of ids, which come from outside.
func gather(column unified.Tensor, ids []byte, from, to int64) ([]byte, error) {
	width := int(column.RowBytes())
	count := len(ids) / 8
	if len(ids)%8 != 0 || count > mostBytes/max(width, 1) {
		return nil, fmt.Errorf("a request of %d bytes for rows of %d: ask for %d MiB at most", len(ids), width,
			mostBytes>>20)
	}
	all, rows := column.Bytes(), make([]byte, count*width)
	for i := range count {
		id := int64(binary.LittleEndian.Uint64(ids[8*i:]))
		if id < from || id >= to {
			return nil, fmt.Errorf("row %d: this server has rows %d to %d", id, from, to-1)
		}
		copy(rows[i*width:], all[int(id)*width:int(id+1)*width])
	}
	return rows, nil
}

func schemaOf(ds *formats.Dataset, c unified.Tensor, from, to int64) *arrow.Schema {
	id := ds.ID()
	about := arrow.NewMetadata([]string{"dataset", "dtype", "shape", "rows", "first", "end"},
		[]string{hex.EncodeToString(id[:]), c.DType().String(), fmt.Sprint(c.Shape()[1:]),
			strconv.FormatInt(c.Len(), 10), strconv.FormatInt(from, 10), strconv.FormatInt(to, 10)})
	field := arrow.Field{Name: "row", Type: &arrow.FixedSizeBinaryType{ByteWidth: int(c.RowBytes())}}
	return arrow.NewSchema([]arrow.Field{field}, &about)
}

func recordOf(rows []byte, width int) arrow.Record {
	of := &arrow.FixedSizeBinaryType{ByteWidth: width}
	n := len(rows) / width
	data := array.NewData(of, n, []*memory.Buffer{nil, memory.NewBufferBytes(rows)}, nil, 0, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: "row", Type: of}}, nil)
	return array.NewRecord(schema, []arrow.Array{array.MakeFromData(data)}, int64(n))
}
