// Package livepage serves one page that shows how a run goes: read-only, with nothing from elsewhere.
//
// Whoever is on this machine may look, by a loopback address. At any other address the page wants the token that is in
// its URL.
package livepage

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

//go:embed page.html
var page string

// ErrAddress is returned for an invalid address.
var ErrAddress = errors.New("not an address to listen at")

// Page is a page at an address.
type Page struct {
	net.Listener
	token string // "" where a loopback address keeps others out
	state func() any
}

// Listen listens at an address such as 127.0.0.1:0. state returns what the page shows, as JSON; it is called for each
// look, by any goroutine. Errors: ErrAddress, and what the system says.
func Listen(address string, state func() any) (*Page, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Page{Listener: l, state: state}
	if at, ok := l.Addr().(*net.TCPAddr); host == "" || !ok || !at.IP.IsLoopback() {
		p.token = rand.Text()
	}
	return p, nil
}

// URL returns where the page is, with its token.
func (p *Page) URL() string {
	url := "http://" + p.Addr().String() + "/"
	if p.token != "" {
		url += "?token=" + p.token
	}
	return url
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "read-only", http.StatusMethodNotAllowed)
	case !p.admits(r):
		http.Error(w, "the URL that khop printed has a token", http.StatusForbidden)
	case r.URL.Path == "/state":
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.state())
	case r.URL.Path == "/":
		nonce := rand.Text()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-"+
			nonce+"'; style-src 'nonce-"+nonce+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = strings.NewReplacer("NONCE", nonce).WriteString(w, page)
	default:
		http.NotFound(w, r)
	}
}

// admits reports whether a request may look. Without a token it must be to a name of this machine: another name that
// leads here is that of somebody's page.
func (p *Page) admits(r *http.Request) bool {
	if p.token != "" {
		return subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(p.token)) == 1
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
