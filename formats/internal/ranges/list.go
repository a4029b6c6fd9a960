package ranges

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/internal/heap"
)

// Found is an object in a folder.
type Found struct {
	Name    string // within the folder, with slashes
	Size    int64
	Version string // tells contents apart
}

// ErrLong is returned for a list of more objects than khop takes.
var ErrLong = errors.New("the list of objects is too long")

const (
	mostFound    = 1 << 17  // objects that a folder may have
	mostPage     = 64 << 20 // bytes of a page of a list
	mostElement  = 64 << 10 // of what a page says of an object
	foundBytes   = 1 << 10  // of memory that an object takes until it is brought, beside three times its name
	shareOfLists = 2        // of a limit of memory a list takes half
)

// Find returns the object at an address, under its own name, or all objects of the folder there, sorted by name.
// fs.ErrNotExist where neither is there.
func (c *Client) Find(ctx context.Context, at address.Location) (list []Found, folder bool, err error) {
	if at.Path != "" {
		o := c.Object(at, -1)
		err = o.Stat(ctx)
		if err == nil {
			return []Found{{at.Base(), o.Size(), o.Version()}}, false, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !(at.Scheme == "hf" && errors.Is(err, ErrStore)) {
			return nil, false, err
		}
	}
	switch at.Scheme {
	case "s3", "gs":
		list, err = c.listBucket(ctx, at)
	case "hf":
		list, err = c.listHub(ctx, at)
	default:
		return nil, false, errors.Join(err, fmt.Errorf("%s: servers do not list folders: name a file", at))
	}
	list = slices.DeleteFunc(list, func(f Found) bool { return !fs.ValidPath(f.Name) || f.Name == "." })
	if err == nil && len(list) == 0 {
		err = &fs.PathError{Op: "list", Path: at.String(), Err: fs.ErrNotExist}
	}
	slices.SortFunc(list, func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
	return list, true, err
}

// turns are the pages of a listing. A store may lie: each page has to lead on.
type turns struct {
	list  []Found
	page  int   // objects of the page before
	bytes int64 // that the list takes
	seen  map[string]bool
	empty int // pages without an object, in a row
}

// add takes an object, unless there are too many.
func (t *turns) add(f Found) error {
	t.bytes += foundBytes + 3*int64(len(f.Name)) + int64(len(f.Version))
	most := heap.Limit() / shareOfLists
	switch {
	case f.Size < 0:
		return fmt.Errorf("%w: it lists %.80q with %d bytes", ErrStore, f.Name, f.Size)
	case len(t.list) == mostFound:
		return fmt.Errorf("%w: it has more than %d: name a smaller folder", ErrLong, mostFound)
	case most > 0 && t.bytes > most:
		return fmt.Errorf("%w: after %d objects it takes %d bytes of memory: allow more, or name a smaller folder",
			ErrLong, len(t.list), most)
	}
	t.list = append(t.list, f)
	return nil
}

// asked asks for a page, and has it read: an answer that ends early is read again.
func (t *turns) asked(ctx context.Context, c *Client, q request, read func(in *page) error) (http.Header, error) {
	before, bytes := len(t.list), t.bytes
	header, err := c.hear(ctx, q, func(body io.Reader) error {
		t.list, t.bytes = t.list[:before], bytes
		err := read(&page{r: body, left: mostPage, element: mostElement})
		var syntax *xml.SyntaxError
		var text *json.SyntaxError
		if errors.As(err, &syntax) || errors.As(err, &text) || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: its list of objects cannot be read: %w", ErrStore, err)
		}
		return err
	})
	t.page = len(t.list) - before
	return header, err
}

// page is the text of a page as it comes, of which no element may be long.
type page struct {
	r             io.Reader
	left, element int
}

// Read implements io.Reader.
func (p *page) Read(b []byte) (int, error) {
	most := min(p.left, p.element)
	if most <= 0 {
		return 0, fmt.Errorf("%w: its list of objects has a part that is too long", ErrStore)
	}
	n, err := p.r.Read(b[:min(len(b), most)])
	p.left, p.element = p.left-n, p.element-n
	return n, err
}

// begin says that another element begins.
func (p *page) begin() { p.element = mostElement }

// emptyPages is how many pages without an object may follow each other: filters of some stores make them.
const emptyPages = 100

// next checks that a page leads to one that was not there yet.
func (t *turns) next(at address.Location, token string) error {
	if t.empty++; t.page > 0 {
		t.empty = 0
	}
	switch {
	case token == "" || t.seen[token] || t.empty > emptyPages:
		return fmt.Errorf("%w: %s: its list of objects does not end: page %d leads to none that is new", ErrStore, at,
			len(t.seen)+1)
	case t.seen == nil:
		t.seen = map[string]bool{}
	}
	t.seen[token] = true
	return nil
}

// listBucket lists what lies below a prefix of a bucket.
func (c *Client) listBucket(ctx context.Context, at address.Location) ([]Found, error) {
	prefix, bucket := at.Path, at
	if bucket.Path = ""; prefix != "" {
		prefix += "/"
	}
	query, pages := url.Values{"list-type": {"2"}, "prefix": {prefix}}, turns{}
	for {
		var more bool
		var token string
		_, err := pages.asked(ctx, c, request{method: http.MethodGet, at: bucket, query: query},
			func(in *page) (err error) { more, token, err = pages.bucket(in, prefix); return err })
		if err != nil || !more {
			return pages.list, err
		}
		if err := pages.next(at, token); err != nil {
			return nil, err
		}
		query.Set("continuation-token", token)
	}
}

// bucket reads a page of a bucket's list, and returns whether more follow, and what they are asked by.
func (t *turns) bucket(in *page, prefix string) (more bool, token string, err error) {
	for d := xml.NewDecoder(in); err == nil; {
		in.begin()
		var next xml.Token
		if next, err = d.Token(); errors.Is(err, io.EOF) && d.InputOffset() > 0 {
			return more, token, nil
		}
		start, ok := next.(xml.StartElement)
		if err != nil || !ok {
			continue
		}
		switch start.Name.Local {
		case "IsTruncated":
			err = d.DecodeElement(&more, &start)
		case "NextContinuationToken":
			err = d.DecodeElement(&token, &start)
		case "Contents":
			var o struct {
				Key, ETag string
				Size      int64
			}
			if err = d.DecodeElement(&o, &start); err == nil {
				err = t.add(Found{strings.TrimPrefix(o.Key, prefix), o.Size, o.ETag})
			}
		}
	}
	return false, "", err
}

// listHub lists the files below a folder of a data set.
func (c *Client) listHub(ctx context.Context, at address.Location) ([]Found, error) {
	repository, revision, _ := strings.Cut(at.Host, "@")
	api := at
	api.Host, api.Path = path.Join("api", repository, "tree", cmp.Or(revision, "main"), at.Path), ""
	query, pages := url.Values{"recursive": {"true"}}, turns{}
	for {
		header, err := pages.asked(ctx, c, request{method: http.MethodGet, at: api, query: query},
			func(in *page) error { return pages.tree(in, at.Path) })
		next := nextPage(header.Get("Link"))
		if err != nil || next == "" {
			return pages.list, err
		}
		if err := pages.next(at, next); err != nil {
			return nil, err
		}
		query.Set("cursor", next)
	}
}

// tree reads a page of the hub's list.
func (t *turns) tree(in *page, folder string) error {
	d := json.NewDecoder(in)
	begin, err := d.Token()
	if err == nil && begin != json.Delim('[') {
		err = fmt.Errorf("%w: its list of objects is no list", ErrStore)
	}
	for err == nil && d.More() {
		var f struct {
			Type, Path, Oid string
			Size            int64
		}
		in.begin()
		if err = d.Decode(&f); err == nil && f.Type == "file" {
			err = t.add(Found{strings.TrimPrefix(strings.TrimPrefix(f.Path, folder), "/"), f.Size, f.Oid})
		}
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}

// nextPage returns the cursor of the page that a header says is next.
func nextPage(link string) string {
	address, rel, _ := strings.Cut(link, ";")
	if !strings.Contains(rel, `rel="next"`) {
		return ""
	}
	u, err := url.Parse(strings.Trim(address, "<> "))
	if err != nil {
		return ""
	}
	return u.Query().Get("cursor")
}
