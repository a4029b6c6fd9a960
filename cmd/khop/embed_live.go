package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// khop embed DATASET --live --changes FILE has rows of all nodes that follow changes (gnn.Live), for another process,
// which writes requests to standard input and reads answers from standard output, each a line of JSON. Arrays are in
// FILE, which both processes have open, or mapped: numbers of this machine, int64 for ids and float32 for rows, one
// behind the other. Who asks makes the file as large as it needs, and may make it larger between requests. Places in it
// (names that end in _at) are bytes from its beginning, any; counts are of elements, not bytes.
//
//	khop:  {"ready":true,"generation":7,"nodes":2000,"width":64,"in_files":false}
//
// is the first answer, when all rows are made and follow the journal (--journal; DATASET.khop-live without it).
// "in_files" says that --max-memory has no room for features and rows, which are in files then. Then each request has
// one answer, in their order. A request has one of three names.
//
//	asks:  {"apply":{"features":[{"type":"paper","count":2,"ids_at":0,"rows_at":16}],
//	                 "add":[{"edges":"paper:cites:paper","count":1,"src_at":528,"dst_at":536}],
//	                 "remove":[{"edges":"cites","count":1,"src_at":544,"dst_at":552}]}}
//	khop:  {"generation":8,"nodes":2001,"feature_rows":2,"edges":2,"steps":[{"step":"layer 1","rows":31},..],
//	        "edges_read":977,"seconds":0.002,"journal_bytes":723}
//
// makes changes, as gnn.Changes describes them, first "remove", then "add". Each of the three lists may be left out,
// and so may "type" and "edges" where the graph has one type. The ids (count) lie at ids_at, their rows (count times
// the width of the type's features) at rows_at; sources and destinations (count each) at src_at and dst_at. The answer
// comes when the changes are on the disk: a process that is killed later has them when it is opened again. "steps" says
// how many rows of each step were made again.
//
//	asks:  {"rows":{"count":3,"ids_at":0,"to_at":24}}
//	khop:  {"generation":8}
//
// writes the rows of these nodes (count times "width" of the first answer) to the file at to_at.
//
//	asks:  {"compact":{}}
//	khop:  {"generation":8}
//
// makes all changes of the journal one. A request that fails has an answer, too, and changes nothing:
//
//	khop:  {"error":"the changes cannot be made: ..","kind":"changes"}
//
// Kinds are "request" (the line, or a place beyond the file), "changes" (ErrChanges), "rows" (ids without rows, or
// layers whose rows are not finite), "journal" (ErrJournal: where its disk has failed all later changes are refused
// until it is opened again), "memory" (pinned.ErrLimit) and "failed" (any other, such as a layer's error). Only an end
// of the input ends khop, with status 0.
//
// With --layers and --blocks layers are computed as docs/embed.md describes: lines that begin with {"layer": are
// blocks, which come before the first answer, and between a request "apply" and its answer. Who asks answers each of
// them with an empty line, or an error's text, before it sends another request.

// liveFlags are those of rows that follow changes.
type liveFlags struct {
	Live    bool   `hidden:"" help:"Keep rows that follow changes, which standard input asks for."`
	Changes string `hidden:"" placeholder:"FILE" type:"path" help:"With --live: file to exchange arrays through."`
	Journal string `hidden:"" placeholder:"FOLDER" type:"path" help:"With --live: folder of its journal."`

	said []string // names of all options that are given
}

// take keeps which options are given.
func (c *embedCmd) take(line *kong.Context) error {
	for name := range saidOn(line) {
		c.said = append(c.said, name)
	}
	slices.Sort(c.said)
	return c.flagsOf.take(line)
}

// check refuses options that do not go with rows that follow changes, or only with these.
func (f *liveFlags) check() error {
	with := []string{"live", "changes", "journal", "checkpoint", "layers", "name", "type", "blocks", "workers",
		"parent", option.NameOf(gnn.EmbedOptions{}, "MaxMemory").Option}
	live := option.Name{Option: "live"}
	for _, name := range f.said {
		if f.Live && !slices.Contains(with, name) {
			return wrongOption(name, " does not go with %s: leave out one of the two", live)
		}
		if !f.Live && (name == "changes" || name == "journal") {
			return wrongOption(name, " is for rows that follow changes: add %s", live)
		}
	}
	if f.Live && f.Changes == "" {
		return wrongOption("live", " exchanges arrays through a file: name it (%s)", option.Name{Option: "changes"})
	}
	return nil
}

// liveReady is the first answer. Programs rely on the names of answers.
type liveReady struct {
	Ready      bool   `json:"ready"`
	Generation uint64 `json:"generation"`
	Nodes      int64  `json:"nodes"`
	Width      int    `json:"width"`
	InFiles    bool   `json:"in_files"`
}

// liveServer answers requests.
type liveServer struct {
	live *gnn.Live
	file *os.File // of arrays
	in   *bufio.Reader
	say  *json.Encoder
}

// serveLive opens rows that follow changes, and answers until its input ends.
func (c *embedCmd) serveLive(env *environment, in *bufio.Reader) (err error) {
	s := &liveServer{in: in, say: json.NewEncoder(env.stdout)}
	if s.file, err = os.OpenFile(c.Changes, os.O_RDWR, 0); err != nil {
		return err
	}
	defer s.file.Close()
	bar := env.newProgress()
	report := bar.report()
	o := &c.opt
	if s.live, err = gnn.OpenLive(env.ctx, c.Dataset, gnn.LiveOptions{Checkpoint: o.Checkpoint, Layers: o.Layers,
		Name: o.Name, Type: o.Type, Rows: o.Rows, Workers: o.Workers, MaxMemory: o.MaxMemory, Journal: c.Journal,
		Tuning: o.Tuning, Progress: func(step string, done, total int64) {
			if s.live == nil {
				report(step, done, total)
			}
		}}); err != nil {
		return err
	}
	defer closing(&err, s.live.Close)
	bar.finish()
	underway.Moved("", 0, 0)
	l := s.live
	if err := s.say.Encode(liveReady{true, l.Generation(), l.Nodes(), l.Width(), l.InFiles()}); err != nil {
		return err
	}
	return s.serve(env.ctx)
}

// serve answers requests until the input ends.
func (s *liveServer) serve(ctx context.Context) error {
	for {
		line, err := s.next(ctx)
		if errors.Is(err, io.EOF) && strings.TrimSpace(line) == "" {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		answer, err := s.answer(ctx, line)
		if err != nil {
			answer = problemOf(err)
		}
		if err := errors.Join(s.say.Encode(answer), context.Cause(ctx)); err != nil {
			return err
		}
	}
}

// next returns the next line. When ctx ends nobody waits for it any more.
func (s *liveServer) next(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := s.in.ReadString('\n')
		done <- read{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// liveRequest is a line of who asks. Programs rely on the names.
type liveRequest struct {
	Apply *liveChanges `json:"apply"`
	Rows  *struct {
		Count int64 `json:"count"`
		IDs   int64 `json:"ids_at"`
		To    int64 `json:"to_at"`
	} `json:"rows"`
	Compact *struct{} `json:"compact"`
}

type liveChanges struct {
	Features []struct {
		Type  string `json:"type"`
		Count int64  `json:"count"`
		IDs   int64  `json:"ids_at"`
		Rows  int64  `json:"rows_at"`
	} `json:"features"`
	Add    []liveEdges `json:"add"`
	Remove []liveEdges `json:"remove"`
}

type liveEdges struct {
	Edges string `json:"edges"`
	Count int64  `json:"count"`
	Src   int64  `json:"src_at"`
	Dst   int64  `json:"dst_at"`
}

// liveGeneration is an answer.
type liveGeneration struct {
	Generation uint64 `json:"generation"`
}

// liveProblem is the answer to a request that fails.
type liveProblem struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
}

// errRequest is returned for a line that asks for nothing that there is.
var errRequest = errors.New("the request cannot be read")

func problemOf(err error) *liveProblem {
	kind := "failed"
	for _, one := range []struct {
		of   error
		name string
	}{{errRequest, "request"}, {gnn.ErrChanges, "changes"}, {gnn.ErrRows, "rows"}, {gnn.ErrJournal, "journal"},
		{pinned.ErrLimit, "memory"}} {
		if errors.Is(err, one.of) {
			kind = one.name
			break
		}
	}
	return &liveProblem{errorText(err, option.Flag), kind}
}

// answer does what a line asks for.
func (s *liveServer) answer(ctx context.Context, line string) (any, error) {
	var ask liveRequest
	from := json.NewDecoder(strings.NewReader(line))
	from.DisallowUnknownFields()
	if err := from.Decode(&ask); err != nil || from.More() {
		return nil, fmt.Errorf("%w: %.80q is no line of JSON as it must be (%v)", errRequest, line, err)
	}
	names := 0
	for _, there := range []bool{ask.Apply != nil, ask.Rows != nil, ask.Compact != nil} {
		if there {
			names++
		}
	}
	switch {
	case names != 1:
		return nil, fmt.Errorf("%w: %.80q has %d of apply, rows and compact; ask for one", errRequest, line, names)
	case ask.Rows != nil:
		return s.rows(ask.Rows.Count, ask.Rows.IDs, ask.Rows.To)
	case ask.Compact != nil:
		return liveGeneration{s.live.Generation()}, s.live.Compact(ctx)
	}
	c, err := s.changes(ask.Apply)
	if err != nil {
		return nil, err
	}
	return s.live.Apply(ctx, c)
}

// changes reads what is to be changed.
func (s *liveServer) changes(ask *liveChanges) (*gnn.Changes, error) {
	c := &gnn.Changes{}
	for _, one := range ask.Features {
		width, err := s.live.FeatureWidth(one.Type)
		if err != nil {
			return nil, err
		}
		ids, err := arrayAt[int64](s.file, one.IDs, one.Count, 1)
		if err != nil {
			return nil, err
		}
		rows, err := arrayAt[float32](s.file, one.Rows, one.Count, int64(width))
		if err != nil {
			return nil, err
		}
		c.Features = append(c.Features, gnn.NodeRows{Type: one.Type, IDs: ids, Rows: rows})
	}
	var err error
	if c.Add, err = s.edges(ask.Add); err != nil {
		return nil, err
	}
	c.Remove, err = s.edges(ask.Remove)
	return c, err
}

func (s *liveServer) edges(all []liveEdges) (to []gnn.EdgeList, err error) {
	for _, one := range all {
		src, err := arrayAt[int64](s.file, one.Src, one.Count, 1)
		if err != nil {
			return nil, err
		}
		dst, err := arrayAt[int64](s.file, one.Dst, one.Count, 1)
		if err != nil {
			return nil, err
		}
		to = append(to, gnn.EdgeList{Edges: one.Edges, Src: src, Dst: dst})
	}
	return to, nil
}

// rows writes rows of nodes to the file.
func (s *liveServer) rows(count, idsAt, to int64) (any, error) {
	ids, err := arrayAt[int64](s.file, idsAt, count, 1)
	if err != nil {
		return nil, err
	}
	rows, err := arrayAt[float32](s.file, to, count, int64(s.live.Width())) // it has room there
	if err != nil {
		return nil, err
	}
	generation, err := s.live.Rows(rows, ids)
	if err != nil {
		return nil, err
	}
	_, err = s.file.WriteAt(unified.FromSlice(rows).Bytes(), to)
	return liveGeneration{generation}, err
}

// arrayAt reads count rows of width elements of a file, at a place.
func arrayAt[T int64 | float32](f *os.File, at, count, width int64) ([]T, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := unified.FromSlice([]T{0}).DType().Size()
	if at < 0 || count < 0 || at > st.Size() || width > 0 && count > (st.Size()-at)/size/width {
		return nil, fmt.Errorf("%w: %d rows of %d numbers of %d bytes at byte %d of %s, which has %d; make it larger",
			errRequest, count, width, size, at, f.Name(), st.Size())
	}
	to := make([]T, count*width)
	_, err = f.ReadAt(unified.FromSlice(to).Bytes(), at)
	return to, err
}
