package ranges_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// client is one that does not wait for long.
func client() *ranges.Client {
	c := ranges.New()
	c.Pause, c.Stall = time.Millisecond, 50*time.Millisecond
	return c
}

func parse(t *testing.T, text string) address.Location {
	t.Helper()
	return expect.Must(address.Parse(text))(t)
}

// fetched returns all bytes of an object, from Fetch.
func fetched(o *ranges.Object, n int64) ([]byte, error) {
	var mu sync.Mutex
	all := make([]byte, n)
	err := o.Fetch(context.Background(), 0, n, func(p []byte, at int64) error {
		mu.Lock()
		defer mu.Unlock()
		copy(all[at:], p)
		return nil
	})
	return all, err
}

func content(n int) []byte {
	b, r := make([]byte, n+8), rand.New(rand.NewPCG(1, 2))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}

func TestEveryAddressReadsTheSame(t *testing.T) {
	s := stores.New(t)
	want := content(3*ranges.RangeBytes/2 + 7)
	for _, name := range []string{"bucket/a folder/x+y.bin", "owner/name/a folder/x+y.bin"} {
		s.Put(name, want)
	}
	for _, address := range []string{"s3://bucket/a folder/x+y.bin", "gs://bucket/a folder/x+y.bin",
		s.URL + "/bucket/a folder/x+y.bin", "hf://datasets/owner/name/a folder/x+y.bin",
		"hf://datasets/owner/name@main/a folder/x+y.bin"} {
		o := client().Object(parse(t, address), -1)
		expect.OK(t, o.Stat(context.Background()))
		expect.That(t, o.Size() == int64(len(want)), "%s: %d bytes", address, o.Size())
		got, err := fetched(o, o.Size())
		expect.That(t, err == nil && bytes.Equal(got, want), "%s: other bytes, or %v", address, err)
		whole, err := client().Object(parse(t, address), -1).ReadAll(context.Background(), int64(len(want)))
		expect.That(t, err == nil && bytes.Equal(whole, want), "%s: other bytes, or %v", address, err)
	}
}

func TestAnObjectOfTheHubIsReadAtTheCommitThatAnsweredFirst(t *testing.T) {
	s := stores.New(t)
	s.Put("owner/name/x", content(100))
	o := client().Object(parse(t, "hf://datasets/owner/name/x"), -1)
	expect.OK(t, o.Stat(context.Background()), o.ReadAt(context.Background(), make([]byte, 9), 5))
	asked, _ := s.Requests()
	expect.That(t, strings.Contains(asked[0], "/resolve/main/") && strings.Contains(asked[1], "/resolve/c0ffee/"), "%q",
		asked)
}

// Faults come and go; those that come again and again end a read, and say why.
func TestReadsOutliveFaultsAndEndByThoseThatStay(t *testing.T) {
	s := stores.New(t)
	want := content(100_000)
	s.Put("bucket/x", want)
	at := parse(t, "s3://bucket/x")
	for _, fault := range []stores.Fault{stores.Busy, stores.Cut, stores.Stalls} {
		s.Fail(func(n int, _ *http.Request) stores.Fault {
			if n%3 == 0 {
				return stores.None
			}
			return fault
		})
		got, err := fetched(client().Object(at, int64(len(want))), int64(len(want)))
		expect.That(t, err == nil && bytes.Equal(got, want), "fault %d: other bytes, or %v", fault, err)
	}
	for fault, sentinel := range map[stores.Fault]error{stores.Busy: ranges.ErrStore,
		stores.Refuses: fs.ErrPermission, stores.Ignores: ranges.ErrStore} {
		s.Fail(func(int, *http.Request) stores.Fault { return fault })
		err := client().Object(at, -1).ReadAt(context.Background(), make([]byte, 10), 20)
		named := strings.Contains(err.Error(), "s3://bucket/x")
		expect.That(t, named && errors.Is(err, sentinel), "fault %d: %v", fault, err)
		expect.That(t, !strings.Contains(fmt.Sprintf("%v %+v", err, err), stores.Secret), "the secret: %v", err)
	}
	s.Fail(nil)
	err := client().Object(parse(t, "s3://bucket/y"), -1).Stat(context.Background())
	expect.That(t, errors.Is(err, fs.ErrNotExist), "%v", err)
}

func TestWhatWasReadIsOfOneVersion(t *testing.T) {
	s := stores.New(t)
	s.Put("bucket/x", content(1000))
	o := client().Object(parse(t, "s3://bucket/x"), -1)
	expect.OK(t, o.ReadAt(context.Background(), make([]byte, 10), 0))
	version := o.Version()
	s.Put("bucket/x", make([]byte, 1000))
	err := o.ReadAt(context.Background(), make([]byte, 10), 500)
	expect.That(t, errors.Is(err, ranges.ErrChanged) && o.Version() == version, "%v", err)
	s.Put("bucket/x", make([]byte, 999))
	err = client().Object(parse(t, "s3://bucket/x"), 1000).ReadAt(context.Background(), make([]byte, 10), 0)
	expect.That(t, errors.Is(err, ranges.ErrChanged), "%v", err)
}

func TestAnEmptyObjectIsOne(t *testing.T) {
	s := stores.New(t)
	s.Put("bucket/empty", nil)
	o := client().Object(parse(t, "s3://bucket/empty"), -1)
	expect.OK(t, o.Stat(t.Context()))
	expect.That(t, o.Size() == 0 && o.Version() != "", "%d bytes, version %q", o.Size(), o.Version())
	text, err := client().Object(parse(t, "s3://bucket/empty"), -1).ReadAll(t.Context(), 100)
	expect.That(t, err == nil && len(text) == 0, "%q, %v", text, err)
	s.Put("bucket/empty", content(10))
	err = o.Stat(t.Context())
	expect.That(t, errors.Is(err, ranges.ErrChanged), "of another version: %v", err)
}

func TestAReadThatIsCalledOffEnds(t *testing.T) {
	s := stores.New(t)
	s.Put("bucket/x", content(100_000))
	ctx, cancel := context.WithCancel(context.Background())
	s.Fail(func(int, *http.Request) stores.Fault { cancel(); return stores.Stalls })
	c := client()
	c.Stall = time.Hour
	err := c.Object(parse(t, "s3://bucket/x"), 100_000).ReadAt(ctx, make([]byte, 100_000), 0)
	expect.That(t, errors.Is(err, context.Canceled), "%v", err)
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, bad := range []string{"s3://", "s3:///x", "https://user:verysecret@host/x",
		"https://host/x?token=verysecret", "s3://key:verysecret@bucket/x", "hf://datasets/owner", "hf://models/a/b/c",
		"s3://bucket/../x", "ftp://host/x", "s3://bucket//x"} {
		l, err := address.Parse(bad)
		expect.That(t, errors.Is(err, address.ErrAddress) && !strings.Contains(err.Error(), "verysecret"), "%s: %v, %v",
			bad, l, err)
	}
	for _, good := range []string{"s3://bucket/x", "gs://b.c/x y/z", "https://host:1234/x", "hf://datasets/o/n@v1/x",
		"s3://bucket"} {
		expect.That(t, parse(t, good).String() == good, "%s", good)
	}
}

func TestObjectsAreWrittenWholeOrNotAtAll(t *testing.T) {
	s := stores.New(t)
	ctx := context.Background()
	for _, n := range []int{0, 5, 17 << 20} {
		want := content(n)
		at := parse(t, fmt.Sprintf("s3://bucket/a b/%d", n))
		s.Fail(func(n int, _ *http.Request) stores.Fault {
			return []stores.Fault{stores.Busy, stores.Cut, stores.None}[n%3]
		})
		if n < 100 {
			s.Fail(func(n int, _ *http.Request) stores.Fault {
				return []stores.Fault{0, stores.Lost, 0}[n%3]
			})
		}
		expect.OK(t, client().Put(ctx, at, bytes.NewReader(want), int64(n), true))
		s.Fail(nil)
		got, _ := s.Get(fmt.Sprintf("bucket/a b/%d", n))
		expect.That(t, bytes.Equal(got, want), "%d: other bytes", n)
		err := client().PutBytes(ctx, at, append(want, 1), true)
		expect.That(t, errors.Is(err, ranges.ErrChanged), "%d: it is there, and %v", n, err)
	}
	s.Fail(func(_ int, r *http.Request) stores.Fault {
		if r.URL.Query().Get("partNumber") == "2" {
			return stores.Refuses
		}
		return stores.None
	})
	err := client().Put(ctx, parse(t, "s3://bucket/y"), bytes.NewReader(content(17<<20)), 17<<20, false)
	_, there := s.Get("bucket/y")
	expect.That(t, errors.Is(err, fs.ErrPermission) && !there && s.Uploads() == 0, "%v, %v, %d uploads", err, there,
		s.Uploads())
	err = client().Put(ctx, parse(t, s.URL+"/bucket/y"), bytes.NewReader(nil), 0, false)
	expect.That(t, errors.Is(err, ranges.ErrReadOnly), "%v", err)
	expect.OK(t, client().Delete(ctx, parse(t, "s3://bucket/a b/5")))
	_, there = s.Get("bucket/a b/5")
	expect.That(t, !there, "it is still there")
	expect.OK(t, client().PutBytes(ctx, parse(t, "s3://bucket/a bc"), nil, true),
		client().PutBytes(ctx, parse(t, "s3://bucket/a b/c"), nil, true),
		client().DeleteFolder(ctx, parse(t, "s3://bucket/a b"), func(name string) bool { return name != "c" }))
	expect.That(t, slices.Equal(s.Names(), []string{"bucket/a b/c", "bucket/a bc"}), "%q", s.Names())
}

// A store that says that it keeps an object, and keeps none, half or another one, is refused.
func TestAStoreThatKeepsOtherBytesIsRefused(t *testing.T) {
	s := stores.New(t)
	for fault, says := range map[stores.Fault]string{stores.Drops: "it has lost an object",
		stores.Halves: "bytes", stores.Alters: "it keeps other bytes than it was given"} {
		for _, size := range []int{3, 17 << 20} { // in one request, and in parts
			s.Fail(func(_ int, r *http.Request) stores.Fault {
				if r.Method == http.MethodGet || r.URL.Query().Has("partNumber") {
					return stores.None
				}
				return fault
			})
			err := client().PutBytes(context.Background(), parse(t, "s3://bucket/x"), content(size), false)
			expect.That(t, errors.Is(err, ranges.ErrStore) && strings.Contains(err.Error(), says),
				"fault %d, %d bytes: %v", fault, size, err)
			s.Drop("bucket/x")
		}
	}
}

func TestSpansComeInTheirOrder(t *testing.T) {
	s := stores.New(t)
	want := content(100_000)
	s.Put("bucket/x", want)
	s.Fail(func(n int, _ *http.Request) stores.Fault { return []stores.Fault{0, stores.Busy}[n%2] })
	o := client().Object(parse(t, "s3://bucket/x"), int64(len(want)))
	var list []ranges.Span
	for at := int64(90_000); at > 0; at -= 7000 {
		list = append(list, ranges.Span{At: at, Bytes: 1 + at%3000})
	}
	spans := o.Ahead(context.Background(), list)
	for _, l := range list[:9] {
		got, err := spans.Next()
		expect.That(t, err == nil && bytes.Equal(got, want[l.At:l.At+l.Bytes]), "%v: other bytes, or %v", l, err)
	}
	spans.Close()
	_, err := spans.Next()
	expect.That(t, errors.Is(err, io.EOF), "behind the end: %v", err)
}

func TestFoldersAreListed(t *testing.T) {
	s := stores.New(t)
	for _, name := range []string{"x/a", "x/b/c", "x/b/d", "x/e", "xy", "x/f"} {
		s.Put("bucket/"+name, content(len(name)))
		s.Put("owner/name/"+name, content(len(name)))
	}
	for _, address := range []string{"s3://bucket/x", "hf://datasets/owner/name/x"} {
		list, folder, err := client().Find(context.Background(), parse(t, address))
		names := ""
		for _, f := range list {
			names += fmt.Sprint(f.Name, " ", f.Size, " ")
		}
		expect.That(t, err == nil && folder && names == "a 3 b/c 5 b/d 5 e 3 f 3 ", "%s: %q, %v", address, names, err)
		list, folder, err = client().Find(context.Background(), parse(t, address+"/e"))
		expect.That(t, err == nil && !folder && len(list) == 1 && list[0].Size == 3, "%s: %v, %v", address, list, err)
		_, _, err = client().Find(context.Background(), parse(t, address+"/z"))
		expect.That(t, errors.Is(err, fs.ErrNotExist), "%s: %v", address, err)
	}
}

// TestListsThatDoNotEndAreRefused: one whose pages lead nowhere, and one that stops in the middle.
func TestListsThatDoNotEndAreRefused(t *testing.T) {
	for fault, want := range map[stores.Fault]error{stores.Loops: ranges.ErrStore,
		stores.Halts: ranges.ErrStalled} {
		s := stores.New(t)
		s.Fail(func(_ int, r *http.Request) stores.Fault {
			if r.URL.Query().Has("list-type") || strings.HasPrefix(r.URL.Path, "/api/") {
				return fault
			}
			return stores.None
		})
		for _, address := range []string{"s3://bucket/x", "hf://datasets/owner/name/x"} {
			_, _, err := client().Find(t.Context(), parse(t, address))
			expect.Is(t, err, want, "%s, fault %d", address, fault)
		}
		requests, _ := s.Requests()
		expect.That(t, len(requests) < 60, "%d requests", len(requests))
	}
}

// TestARedirectGetsNoCredentials of any kind, on another host.
func TestARedirectGetsNoCredentials(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.Contains(fmt.Sprint(values), stores.Secret) || strings.HasPrefix(name, "X-Amz") ||
				name == "Authorization" {
				got = append(got, name)
			}
		}
		http.NotFound(w, r)
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	stores.New(t)
	t.Setenv("AWS_SESSION_TOKEN", stores.Secret)
	t.Setenv("AWS_ENDPOINT_URL", first.URL)
	t.Setenv("HF_ENDPOINT", first.URL)
	for _, address := range []string{"s3://bucket/x", "hf://datasets/owner/name/x"} {
		_, _, err := client().Find(t.Context(), parse(t, address))
		expect.That(t, err != nil, "%s", address)
	}
	expect.That(t, len(got) == 0, "the other host got %q", got)
}
