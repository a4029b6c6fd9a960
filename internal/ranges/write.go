package ranges

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// ErrReadOnly is returned for writing where khop does not write: anywhere but in stores that speak S3.
var ErrReadOnly = errors.New("khop writes to s3:// and gs:// alone")

const (
	leastPart    = 16 << 20 // bytes of a part of an object, which has 10,000 at most
	mostParts    = 10_000
	partsAtATime = 4
	mostAnswer   = 16 << 20
)

// Put makes an object of a file's first bytes: whole, or not at all. fresh says that there must be none yet:
// ErrChanged.
func (c *Client) Put(ctx context.Context, at Location, from io.ReaderAt, size int64, fresh bool) error {
	if at.Scheme != "s3" && at.Scheme != "gs" {
		return fmt.Errorf("%s: %w", at, ErrReadOnly)
	}
	header := http.Header{}
	if fresh {
		header.Set("If-None-Match", "*")
	}
	if size <= leastPart {
		body, err := partOf(from, 0, size)
		if err == nil {
			_, _, err = c.ask(ctx, request{method: http.MethodPut, at: at, header: header, body: body})
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
			body: completion(etags)})
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

// putParts writes the parts of an upload, and returns their ETags.
func (c *Client) putParts(ctx context.Context, at Location, query url.Values, from io.ReaderAt,
	size int64) ([]string, error) {
	part := max(leastPart, (size+mostParts-1)/mostParts)
	etags := make([]string, (size+part-1)/part)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtATime)
	for i := range etags {
		g.Go(func() error {
			body, err := partOf(from, int64(i)*part, min(part, size-int64(i)*part))
			if err != nil {
				return err
			}
			q := url.Values{"partNumber": {strconv.Itoa(i + 1)}, "uploadId": query["uploadId"]}
			header, _, err := c.ask(ctx, request{method: http.MethodPut, at: at, query: q, body: body})
			etags[i] = header.Get("ETag")
			return err
		})
	}
	return etags, g.Wait()
}

func partOf(from io.ReaderAt, at, n int64) ([]byte, error) {
	body := make([]byte, n)
	if _, err := from.ReadAt(body, at); err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		return nil, err
	}
	return body, nil
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
func (c *Client) Delete(ctx context.Context, at Location) error {
	_, _, err := c.ask(ctx, request{method: http.MethodDelete, at: at})
	return err
}

// ask asks, until there is an answer, and reads that whole.
func (c *Client) ask(ctx context.Context, q request) (header http.Header, answer []byte, err error) {
	if q.header == nil {
		q.header = http.Header{}
	}
	if q.at.Scheme == "s3" || q.at.Scheme == "gs" {
		sum := sha256.Sum256(q.body)
		q.header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	}
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
		resp, err := c.send(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		header = resp.Header
		if answer, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer)); err != nil {
			return &transient{err: err}
		}
		return nil
	}, func() int { return 0 })
	return header, answer, err
}
