package ranges

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Found is an object in a folder.
type Found struct {
	Name    string // within the folder, with slashes
	Size    int64
	Version string // tells contents apart
}

// mostFound is how many objects a folder may have.
const mostFound = 1 << 17

// Find returns the object at an address, under its own name, or all objects of the folder there, sorted by name.
// fs.ErrNotExist where neither is there.
func (c *Client) Find(ctx context.Context, at Location) (list []Found, folder bool, err error) {
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
	seen  map[string]bool
	empty int // pages without an object, in a row
}

// emptyPages is how many pages without an object may follow each other: filters of some stores make them.
const emptyPages = 100

// next checks that a page leads to one that was not there yet, and that there are not too many objects.
func (t *turns) next(at Location, token string, page, all int) error {
	if t.empty++; page > 0 {
		t.empty = 0
	}
	switch {
	case all > mostFound:
		return fmt.Errorf("%s: it holds more than %d objects: name a smaller folder", at, mostFound)
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
func (c *Client) listBucket(ctx context.Context, at Location) (list []Found, err error) {
	prefix, bucket := at.Path, at
	if bucket.Path = ""; prefix != "" {
		prefix += "/"
	}
	query, pages := url.Values{"list-type": {"2"}, "prefix": {prefix}}, turns{}
	for {
		var page struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct {
				Key, ETag string
				Size      int64
			}
		}
		_, answer, err := c.ask(ctx, request{method: http.MethodGet, at: bucket, query: query})
		if err == nil {
			err = xml.Unmarshal(answer, &page)
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			list = append(list, Found{strings.TrimPrefix(o.Key, prefix), o.Size, o.ETag})
		}
		if !page.IsTruncated {
			return list, nil
		}
		if err := pages.next(at, page.NextContinuationToken, len(page.Contents), len(list)); err != nil {
			return nil, err
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// listHub lists the files below a folder of a data set.
func (c *Client) listHub(ctx context.Context, at Location) (list []Found, err error) {
	repository, revision, _ := strings.Cut(at.Host, "@")
	api := at
	api.Host, api.Path = path.Join("api", repository, "tree", cmp.Or(revision, "main"), at.Path), ""
	query, pages := url.Values{"recursive": {"true"}}, turns{}
	for {
		var page []struct {
			Type, Path, Oid string
			Size            int64
		}
		header, answer, err := c.ask(ctx, request{method: http.MethodGet, at: api, query: query})
		if err == nil {
			err = json.Unmarshal(answer, &page)
		}
		if err != nil {
			return nil, err
		}
		for _, f := range page {
			if f.Type == "file" {
				list = append(list, Found{strings.TrimPrefix(strings.TrimPrefix(f.Path, at.Path), "/"), f.Size, f.Oid})
			}
		}
		next := nextPage(header.Get("Link"))
		if next == "" {
			return list, nil
		}
		if err := pages.next(at, next, len(page), len(list)); err != nil {
			return nil, err
		}
		query.Set("cursor", next)
	}
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
