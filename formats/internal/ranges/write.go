package ranges

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/formats/internal/address"
)

// ErrReadOnly is returned for writing where khop does not write: anywhere but in stores that speak S3.
var ErrReadOnly = errors.New("khop writes to s3:// and gs:// alone")

const (
	leastPart    = 16 << 20 // bytes of a part of an object, which has 10,000 at most
	mostParts    = 10_000
	partsAtATime = 4
	mostAnswer   = 2 << 20 // bytes of an answer that is read whole
)

// PutFile makes an object of a file. fresh is as in Put.
func (c *Client) PutFile(ctx context.Context, at address.Location, name string, fresh bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return c.Put(ctx, at, f, st.Size(), fresh)
}

// PutBytes makes an object of some bytes. fresh is as in Put.
func (c *Client) PutBytes(ctx context.Context, at address.Location, text []byte, fresh bool) error {
	return c.Put(ctx, at, bytes.NewReader(text), int64(len(text)), fresh)
}

// Put makes an object of a file's first bytes: whole, or not at all. fresh: ErrChanged where the object exists with
// other bytes. ErrStore where the store does not keep what it was given.
func (c *Client) Put(ctx context.Context, at address.Location, from io.ReaderAt, size int64, fresh bool) error {
	if err := c.put(ctx, at, from, size, fresh); err != nil {
		return err
	}
	return c.confirm(ctx, at, io.NewSectionReader(from, 0, size))
}

// confirm compares an object with what was written: its size, and its ETag where that is a sum of the bytes as most
// stores make it, else the bytes themselves.
func (c *Client) confirm(ctx context.Context, at address.Location, body *io.SectionReader) error {
	o, size := c.Object(at, -1), body.Size()
	switch err := o.Stat(ctx); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: it has lost an object that it took", at, ErrStore)
	case err != nil:
		return err
	case o.Size() != size:
		return fmt.Errorf("%s: %w: it keeps %d of %d bytes", at, ErrStore, o.Size(), size)
	}
	tag, err := etagOf(body)
	if err != nil || o.Version() == tag || c.holds(ctx, at, body) {
		return err
	}
	return cmp.Or(context.Cause(ctx), fmt.Errorf("%s: %w: it keeps other bytes than it was given", at, ErrStore))
}

// etagOf returns the ETag of an object as Amazon's stores make it: the MD5 of its bytes, or of those of its parts.
func etagOf(body *io.SectionReader) (string, error) {
	size := body.Size()
	if size <= leastPart {
		sum, err := sumOf(body)
		return fmt.Sprintf(`"%x"`, sum), err
	}
	all, part := md5.New(), partOf(size)
	for from := int64(0); from < size; from += part {
		sum, err := sumOf(io.NewSectionReader(body, from, min(part, size-from)))
		if err != nil {
			return "", err
		}
		all.Write(sum)
	}
	return fmt.Sprintf(`"%x-%d"`, all.Sum(nil), (size+part-1)/part), nil
}

func sumOf(body *io.SectionReader) ([]byte, error) {
	h := md5.New()
	_, err := io.Copy(h, io.NewSectionReader(body, 0, body.Size()))
	return h.Sum(nil), err
}

// partOf returns the bytes of a part of an object.
func partOf(size int64) int64 { return max(leastPart, (size+mostParts-1)/mostParts) }

func (c *Client) put(ctx context.Context, at address.Location, from io.ReaderAt, size int64, fresh bool) error {
	if at.Scheme != "s3" && at.Scheme != "gs" {
		return fmt.Errorf("%s: %w", at, ErrReadOnly)
	}
	header := http.Header{}
	if fresh {
		header.Set("If-None-Match", "*")
	}
	if size <= leastPart {
		body := io.NewSectionReader(from, 0, size)
		_, _, err := c.ask(ctx, request{method: http.MethodPut, at: at, header: header, body: body})
		if fresh && errors.Is(err, ErrChanged) && c.holds(ctx, at, body) {
			return nil
		}
		return err
	}
	var upload struct{ UploadId string } //nolint:revive // as the store spells it
	_, answer, err := c.ask(ctx, request{method: http.MethodPost, at: at, query: url.Values{"uploads": {""}}})
	if err == nil {
		err = xml.Unmarshal(answer, &upload)
	}
	if err != nil {
		return err
	}
	query := url.Values{"uploadId": {upload.UploadId}}
	etags, err := c.putParts(ctx, at, query, from, size)
	if err == nil {
		_, answer, err = c.ask(ctx, request{method: http.MethodPost, at: at, query: query, header: header,
			body: sectionOf(completion(etags))})
	}
	if err == nil && bytes.Contains(answer, []byte("<Error>")) { // after a status of 200
		err = fmt.Errorf("%s: %w: it did not complete the upload", at, ErrStore)
	}
	if err != nil {
		_, _, e := c.ask(context.WithoutCancel(ctx), request{method: http.MethodDelete, at: at, query: query})
		return errors.Join(err, e)
	}
	return nil
}

// holds reports whether an object has these bytes: an attempt of ours may have made it whose answer was lost.
func (c *Client) holds(ctx context.Context, at address.Location, body *io.SectionReader) bool {
	o := c.Object(at, body.Size())
	err := o.Stat(ctx)
	if err == nil {
		err = o.Fetch(ctx, 0, body.Size(), func(p []byte, at int64) error {
			ours := make([]byte, len(p))
			if _, err := body.ReadAt(ours, at); err != nil {
				return err
			}
			if !bytes.Equal(p, ours) {
				return ErrChanged
			}
			return nil
		})
	}
	return err == nil
}

func sectionOf(text []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text)))
}

// putParts writes the parts of an upload, and returns their ETags.
func (c *Client) putParts(ctx context.Context, at address.Location, query url.Values, from io.ReaderAt,
	size int64) ([]string, error) {
	part := partOf(size)
	etags := make([]string, (size+part-1)/part)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtATime)
	for i := range etags {
		g.Go(func() error {
			body := io.NewSectionReader(from, int64(i)*part, min(part, size-int64(i)*part))
			q := url.Values{"partNumber": {strconv.Itoa(i + 1)}, "uploadId": query["uploadId"]}
			header, _, err := c.ask(ctx, request{method: http.MethodPut, at: at, query: q, body: body})
			etags[i] = header.Get("ETag")
			return err
		})
	}
	return etags, g.Wait()
}

// completion names the parts of an upload.
func completion(etags []string) []byte {
	type part struct {
		PartNumber int
		ETag       string
	}
	list := struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []part
	}{}
	for i, e := range etags {
		list.Part = append(list.Part, part{i + 1, e})
	}
	text, _ := xml.Marshal(list)
	return text
}

// Delete removes an object. One that is not there is no error.
func (c *Client) Delete(ctx context.Context, at address.Location) error {
	_, _, err := c.ask(ctx, request{method: http.MethodDelete, at: at})
	return err
}

// DeleteFolder removes the objects below an address of whose names ours says so, and gives up uploads there that nobody
// has completed.
func (c *Client) DeleteFolder(ctx context.Context, at address.Location, ours func(name string) bool) error {
	list, err := c.listBucket(ctx, at)
	if err != nil {
		return err
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(InFlight)
	for _, o := range list {
		if ours(o.Name) {
			g.Go(func() error { return c.Delete(inner, at.Join(o.Name)) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.giveUp(ctx, at)
}

// giveUp gives up the uploads of objects below an address.
func (c *Client) giveUp(ctx context.Context, at address.Location) error {
	bucket := at
	bucket.Path = ""
	for {
		var page struct {
			Upload []struct{ Key, UploadId string } //nolint:revive // as the store spells it
		}
		_, answer, err := c.ask(ctx, request{method: http.MethodGet, at: bucket,
			query: url.Values{"uploads": {""}, "prefix": {at.Path + "/"}}})
		if err == nil {
			err = xml.Unmarshal(answer, &page)
		}
		if err != nil || len(page.Upload) == 0 {
			return err
		}
		for _, u := range page.Upload {
			of := bucket
			of.Path = u.Key
			if _, _, err := c.ask(ctx, request{method: http.MethodDelete, at: of,
				query: url.Values{"uploadId": {u.UploadId}}}); err != nil {
				return err
			}
		}
	}
}

// ask asks, until there is an answer, and reads that whole.
func (c *Client) ask(ctx context.Context, q request) (header http.Header, answer []byte, err error) {
	header, err = c.hear(ctx, q, func(body io.Reader) (err error) {
		if answer, err = io.ReadAll(io.LimitReader(body, mostAnswer+1)); len(answer) > mostAnswer {
			err = fmt.Errorf("%s: %w: its answer has more than %d bytes", q.at, ErrStore, mostAnswer)
		}
		return err
	})
	return header, answer, err
}

// hear asks until there is an answer, and has that read as it comes: again from its beginning where it ends early.
func (c *Client) hear(ctx context.Context, q request, read func(body io.Reader) error) (header http.Header, err error) {
	what := "write"
	if q.method == http.MethodGet {
		what = "list"
	}
	err = c.keepTrying(ctx, what, q.at, func() error {
		leave, err := c.enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		resp, err := c.send(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		header = resp.Header
		w := newWatched(resp.Body, c.Stall, end)
		defer w.timer.Stop()
		if err = read(w); w.why != nil {
			return w.explain(ctx, w.why, w.got, max(resp.ContentLength, 0))
		}
		return err
	}, func() int { return 0 })
	return header, err
}
