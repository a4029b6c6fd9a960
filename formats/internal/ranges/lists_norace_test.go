//go:build !race

package ranges_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/heap"
)

// TestListsThatAreTooLongAreRefusedAsTheyCome before they take the memory that is allowed.
func TestListsThatAreTooLongAreRefusedAsTheyCome(t *testing.T) {
	defer heap.SetLimit(0)
	object := func(i int) string {
		return fmt.Sprintf("<Contents><Key>x/part-%08d</Key><Size>1</Size><ETag>\"%08d\"</ETag></Contents>", i, i)
	}
	for _, c := range []struct {
		what  string
		limit int64
		of    func(i int) string
		want  error
		says  string
	}{
		{"many", 0, object, ranges.ErrLong, "name a smaller folder"},
		{"many for the memory", 20 << 20, object, ranges.ErrLong, "allow more"},
		{"a long name", 0, func(i int) string {
			return "<Contents><Key>x/" + strings.Repeat("long", 1<<i) + "</Key></Contents>"
		}, ranges.ErrStore, "too long"},
		{"fewer than none", 0, func(int) string { return "<Contents><Key>x/a</Key><Size>-1</Size></Contents>" },
			ranges.ErrStore, "-1 bytes"},
		{"no list", 0, func(int) string { return "</Contents>" }, ranges.ErrStore, "cannot be read"},
	} {
		sent := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("list-type") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, "<ListBucketResult>")
			for i := 0; r.Context().Err() == nil && i < 1<<20; i++ {
				n, _ := io.WriteString(w, c.of(i))
				sent += n
			}
		}))
		t.Setenv("AWS_ENDPOINT_URL", server.URL)
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		heap.SetLimit(c.limit)
		_, _, err := ranges.New().Find(t.Context(), parse(t, "s3://bucket/x"))
		server.Close()
		expect.That(t, errors.Is(err, c.want) && strings.Contains(err.Error(), c.says) && sent < 20<<20,
			"%s: %v, after %d bytes", c.what, err, sent)
	}
}
