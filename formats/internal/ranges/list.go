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
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/internal/heap"
)

// s3 is where buckets are, and who asks.
type s3 struct {
	endpoint string // of all buckets; "": Amazon's, or Google's
	region   string
	who      *credentials.Credentials

	mu      sync.Mutex
	regions map[string]string // of buckets, as servers have said
	nobody  bool              // there are no credentials: they are not looked for again
}

// metadataTimeout is how long the server of a machine's metadata may take: elsewhere there is none.
const metadataTimeout = 2 * time.Second

// newS3 takes settings and credentials from where Amazon's own programs do.
func newS3() *s3 {
	chain := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		chain = append(chain, &credentials.IAM{Client: &http.Client{Timeout: metadataTimeout}})
	}
	return &s3{
		endpoint: cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")),
		region:   cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		who:      credentials.NewChainCredentials(chain), regions: map[string]string{},
	}
}

// address returns where an object is, and what signs a request for it.
func (s *s3) address(l address.Location) (*url.URL, func(*http.Request) error, error) {
	region := s.regionOf(l.Host)
	u := &url.URL{Scheme: "https", Host: "s3." + region + ".amazonaws.com"}
	switch {
	case s.endpoint != "":
		at, err := url.Parse(s.endpoint)
		if err != nil || at.Host == "" {
			return nil, nil, fmt.Errorf("%w: AWS_ENDPOINT_URL is no address of a server", address.ErrAddress)
		}
		u.Scheme, u.Host = at.Scheme, at.Host
	case l.Scheme == "gs":
		u.Host, region = "storage.googleapis.com", "auto"
	case !strings.Contains(l.Host, "."): // which its certificate would not cover
		u.Host = l.Host + "." + u.Host
		u.Path = "/" + l.Path
		u.RawPath = s3utils.EncodePath(u.Path)
		return u, s.signer(region), nil
	}
	u.Path = "/" + l.Host
	if l.Path != "" {
		u.Path += "/" + l.Path
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	return u, s.signer(region), nil
}

func (s *s3) regionOf(bucket string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.regions[bucket], s.region, "us-east-1")
}

// elsewhere notes that a bucket is in another region, if an answer says so.
func (s *s3) elsewhere(bucket string, r *http.Response) bool {
	region := r.Header.Get("X-Amz-Bucket-Region")
	if region == "" || region == s.regionOf(bucket) || len(region) > 40 || strings.ContainsAny(region, "/.:@?#") {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions[bucket] = region
	return true
}

// signer returns what signs requests; without credentials, which a public bucket does not ask for, it does nothing.
func (s *s3) signer(region string) func(*http.Request) error {
	return func(r *http.Request) error {
		who, err := s.credentials()
		if err != nil || who.AccessKeyID == "" {
			return err
		}
		*r = *signer.SignV4(*r, who.AccessKeyID, who.SecretAccessKey, who.SessionToken, region)
		return nil
	}
}

// credentials returns who asks; nobody where there are none.
func (s *s3) credentials() (who credentials.Value, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nobody {
		return who, nil
	}
	who, err = s.who.Get()
	s.nobody = err == nil && who.AccessKeyID == ""
	return who, err
}

// hub is where data sets of Hugging Face are.
type hub struct{ endpoint, token string }

// newHub takes settings from where the hub's own programs do.
func newHub() hub {
	h := hub{endpoint: cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), token: os.Getenv("HF_TOKEN")}
	if h.token == "" {
		home, _ := os.UserHomeDir()
		folder := cmp.Or(os.Getenv("HF_HOME"), filepath.Join(home, ".cache", "huggingface"))
		text, _ := os.ReadFile(cmp.Or(os.Getenv("HF_TOKEN_PATH"), filepath.Join(folder, "token")))
		h.token = strings.TrimSpace(string(text))
	}
	return h
}

// address returns where a file of a data set is, at a revision: a branch, a tag or a commit.
func (h *hub) address(l address.Location) (*url.URL, func(*http.Request) error, error) {
	u, err := url.Parse(h.endpoint)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("%w: HF_ENDPOINT is no address of a server", address.ErrAddress)
	}
	if strings.HasPrefix(l.Host, "api/") {
		return u.JoinPath(l.Host), h.sign, nil
	}
	repository, revision, _ := strings.Cut(l.Host, "@")
	return u.JoinPath(repository, "resolve", cmp.Or(revision, "main"), l.Path), h.sign, nil
}

func (h *hub) sign(r *http.Request) error {
	if h.token != "" { // net/http does not hand it on to the server that the file itself is on
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return nil
}

// pinRevision returns the address at the commit that has answered.
func pinRevision(l address.Location, r *http.Response) address.Location {
	for ; r != nil; r = r.Request.Response { // the hub's own answer leads on to another server
		if commit := r.Header.Get("X-Repo-Commit"); commit != "" {
			repository, _, _ := strings.Cut(l.Host, "@")
			l.Host = repository + "@" + commit
			break
		}
	}
	return l
}

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
