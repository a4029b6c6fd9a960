// Package stores has a store for tests, within their process: it speaks as much of S3 as khop asks for, serves the
// same objects as plain files and as a data set of the hub, and fails as a test sets.
package stores

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/patience"
)

// Secret is the key that requests are signed by: no output may have it.
const Secret = "verysecretkeyofthestore"

// Fault is how the store answers one request.
type Fault int

// The faults that there are.
const (
	None    Fault = iota
	Busy          // 503
	Cut           // the answer ends early
	Stalls        // the answer stops, and its connection stays
	Refuses       // 403
	Ignores       // the range that was asked for: the whole object
	Wrong         // a bit is another one
	Drops         // the object is not kept, though the answer says so
	Halves        // half of the object is kept, though the answer says so
	Alters        // the object is kept with another bit, though the answer says so
	Lost          // the object is written, and no answer comes
	Loops         // a list that says that more follows, and has nothing, for ever
	Halts         // an answer that begins with a byte, and stays
	Breaks        // a list that ends in the middle
	Boasts        // a list of an object of 15 TiB
	Moves         // to Store.To
)

// Store is a store of objects.
type Store struct {
	URL string
	To  string // where Moves leads

	mu       sync.Mutex
	objects  map[string][]byte // by bucket and key
	uploads  map[string]*upload
	fault    func(n int, r *http.Request) Fault
	requests []string
	sent     int64
	release  chan struct{}
}

// upload is an object being written in parts.
type upload struct {
	name  string
	parts map[int][]byte
}

// New starts a store that a test's environment leads to, and has clients not wait for long. It ends with the test.
func New(t *testing.T) *Store {
	pause, stall := patience.FirstPause, patience.Stall
	patience.FirstPause, patience.Stall = 100*time.Microsecond, 50*time.Millisecond
	t.Cleanup(func() { patience.FirstPause, patience.Stall = pause, stall })
	s := &Store{objects: map[string][]byte{}, uploads: map[string]*upload{}, release: make(chan struct{})}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() { close(s.release); server.CloseClientConnections(); server.Close() })
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "somebody",
		"AWS_SECRET_ACCESS_KEY": Secret, "AWS_REGION": "us-east-1", "HF_ENDPOINT": server.URL, "HF_TOKEN": Secret,
		"AWS_ENDPOINT_URL_S3": "", "AWS_SESSION_TOKEN": ""} {
		t.Setenv(name, value)
	}
	return s
}

// PutFolder makes objects of the files in a folder, and returns their address.
func (s *Store) PutFolder(t testing.TB, bucket, prefix, dir string) string {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			name, _ := filepath.Rel(dir, path)
			s.Put(bucket+"/"+prefix+"/"+filepath.ToSlash(name), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return "s3://" + bucket + "/" + prefix
}

// Put makes an object, named by bucket and key.
func (s *Store) Put(name string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = text
}

// Drop removes an object.
func (s *Store) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
}

// Get returns an object.
func (s *Store) Get(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[name]
	return b, ok
}

// Names returns the names of all objects, sorted.
func (s *Store) Names() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.objects {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Uploads returns how many uploads have neither been completed nor given up.
func (s *Store) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Fail has the store ask how to answer each request, which are counted from 1 on; nil: as it should.
func (s *Store) Fail(how func(n int, r *http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.requests, s.sent = how, nil, 0
}

// Requests returns method, path and range of each request since the last Fail, and the bytes that were sent.
func (s *Store) Requests() ([]string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), s.sent
}

// ServeHTTP answers.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
	n, how, fault := len(s.requests), s.fault, None
	s.mu.Unlock()
	if how != nil {
		fault = how(n, r)
	}
	switch {
	case fault == Busy:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case fault == Refuses:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case fault == Loops && strings.HasPrefix(r.URL.Path, "/api/"):
		w.Header().Set("Link", `<`+s.URL+`/x?cursor=same>; rel="next"`)
		_, _ = io.WriteString(w, "[]")
	case fault == Loops:
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated>"+
			"<NextContinuationToken>same</NextContinuationToken></ListBucketResult>")
	case fault == Breaks:
		_, _ = io.WriteString(w, "<ListBucketResult><Contents><Key>a/edges.csv</Key><Si")
	case fault == Boasts:
		_, _ = io.WriteString(w, "<ListBucketResult><Contents><Key>a/edges.csv</Key><Size>16492674416640</Size>"+
			"</Contents></ListBucketResult>")
	case fault == Moves:
		http.Redirect(w, r, s.To+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	case fault == Halts:
		halted := &writer{ResponseWriter: w, s: s, fault: Stalls, left: 1, end: r.Context().Done()}
		_, _ = io.WriteString(halted, map[bool]string{true: "[ ", false: "<ListBucketResult>"}[strings.HasPrefix(
			r.URL.Path, "/api/")])
	case strings.Contains(r.URL.Path, "/resolve/"):
		s.hub(w, r, fault)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.tree(w, r)
	case r.Header.Get("Authorization") == "" && r.Method != http.MethodGet:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case r.URL.Query().Has("list-type"):
		s.list(w, r)
	case r.Method == http.MethodGet && r.URL.Query().Has("uploads"):
		s.listUploads(w, r)
	case r.Method == http.MethodGet:
		s.get(w, r, strings.TrimPrefix(r.URL.Path, "/"), fault)
	case fault == Lost:
		s.write(httptest.NewRecorder(), r, body, None)
		panic(http.ErrAbortHandler)
	default:
		s.write(w, r, body, fault)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>of %s</Message></Error>", code, Secret)
}

// hub answers as the hub does: it names the commit.
func (s *Store) hub(w http.ResponseWriter, r *http.Request, fault Fault) {
	repository, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/datasets/"), "/resolve/")
	revision, name, _ := strings.Cut(rest, "/")
	if r.Header.Get("Authorization") != "Bearer "+Secret || revision != "main" && revision != "c0ffee" {
		refuse(w, http.StatusUnauthorized, "")
		return
	}
	w.Header().Set("X-Repo-Commit", "c0ffee")
	s.get(w, r, repository+"/"+name, fault)
}

// listUploads answers with the uploads in a bucket that are under way.
func (s *Store) listUploads(w http.ResponseWriter, r *http.Request) {
	type of struct{ Key, UploadId string } //nolint:revive // as stores spell it
	var answer struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []of
	}
	bucket := strings.Trim(r.URL.Path, "/") + "/"
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.uploads {
		if strings.HasPrefix(u.name, bucket+r.URL.Query().Get("prefix")) {
			answer.Upload = append(answer.Upload, of{strings.TrimPrefix(u.name, bucket), id})
		}
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

// etagOf returns the ETag of an object.
func etagOf(text []byte) string {
	sum := md5.Sum(text)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// get answers a read.
func (s *Store) get(w http.ResponseWriter, r *http.Request, name string, fault Fault) {
	text, ok := s.Get(name)
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", etagOf(text))
	if fault == Wrong && len(text) > 0 {
		text = slices.Clone(text)
		text[len(text)/2] ^= 1
	}
	if fault == Ignores {
		r.Header.Del("Range")
	}
	if len(text) == 0 && r.Header.Get("Range") != "" { // as Amazon's does
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		return
	}
	to := &writer{ResponseWriter: w, s: s, fault: fault, left: 1 << 62, end: r.Context().Done()}
	if fault == Cut || fault == Stalls {
		to.left = int64(min(len(text)/3, 5000))
	}
	http.ServeContent(to, r, "", time.Time{}, bytes.NewReader(text))
}

// writer ends an answer early, if it is told to.
type writer struct {
	http.ResponseWriter
	s     *Store
	fault Fault
	left  int64
	end   <-chan struct{}
}

// Write writes.
func (w *writer) Write(p []byte) (int, error) {
	if int64(len(p)) <= w.left {
		n, err := w.ResponseWriter.Write(p)
		w.left -= int64(n)
		w.s.mu.Lock()
		w.s.sent += int64(n)
		w.s.mu.Unlock()
		return n, err
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	w.ResponseWriter.(http.Flusher).Flush()
	if w.fault == Stalls {
		select {
		case <-w.s.release:
		case <-w.end:
		}
	}
	panic(http.ErrAbortHandler)
}

// list answers with the names in a bucket, two at a time.
func (s *Store) list(w http.ResponseWriter, r *http.Request) {
	type object struct {
		Key, ETag string
		Size      int
	}
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []object
	}
	bucket := strings.Trim(r.URL.Path, "/") + "/"
	for _, name := range s.Names() {
		key, ok := strings.CutPrefix(name, bucket)
		q := r.URL.Query()
		if !ok || !strings.HasPrefix(key, q.Get("prefix")) || key <= q.Get("continuation-token") {
			continue
		}
		if len(answer.Contents) == 2 {
			answer.IsTruncated, answer.NextContinuationToken = true, answer.Contents[1].Key
			break
		}
		text, _ := s.Get(name)
		answer.Contents = append(answer.Contents, object{key, etagOf(text), len(text)})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

// tree answers with the files of a data set of the hub.
func (s *Store) tree(w http.ResponseWriter, r *http.Request) {
	repository, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/datasets/"), "/tree/")
	_, prefix, _ := strings.Cut(rest, "/")
	list := []map[string]any{}
	for _, name := range s.Names() {
		key, ok := strings.CutPrefix(name, repository+"/")
		if ok && strings.HasPrefix(key, prefix+"/") {
			text, _ := s.Get(name)
			list = append(list, map[string]any{"type": "file", "path": key, "size": len(text)})
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

// write answers what changes objects.
func (s *Store) write(w http.ResponseWriter, r *http.Request, body []byte, fault Fault) {
	name, q := strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(body)
	id, part := q.Get("uploadId"), 0
	_, _ = fmt.Sscan(q.Get("partNumber"), &part)
	_, there := s.objects[name]
	switch {
	case r.Method != http.MethodHead && r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case fault == Cut:
		panic(http.ErrAbortHandler)
	case id != "" && s.uploads[id] == nil:
		refuse(w, http.StatusNotFound, "NoSuchUpload")
	case r.Header.Get("If-None-Match") == "*" && there:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPost && q.Has("uploads"):
		id = fmt.Sprintf("upload%d", len(s.requests))
		s.uploads[id] = &upload{name, map[int][]byte{}}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case r.Method == http.MethodPost:
		var text []byte
		for i := range len(s.uploads[id].parts) {
			text = append(text, s.uploads[id].parts[i+1]...)
		}
		delete(s.uploads, id)
		s.keep(name, text, fault)
		fmt.Fprint(w, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
	case r.Method == http.MethodDelete && id != "":
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case id != "":
		s.uploads[id].parts[part] = body
		w.Header().Set("ETag", etagOf(body))
	default:
		s.keep(name, body, fault)
		w.Header().Set("ETag", etagOf(body))
	}
}

// keep keeps an object, or what a store that lies keeps of it.
func (s *Store) keep(name string, text []byte, fault Fault) {
	switch {
	case fault == Drops:
		return
	case fault == Halves:
		text = text[:len(text)/2]
	case fault == Alters && len(text) > 0:
		text = slices.Clone(text)
		text[len(text)/2] ^= 1
	}
	s.objects[name] = text
}
