package prometheus

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/expect"
)

// scrapesHere serves metrics with limits until the test ends, and returns where.
func scrapesHere(t *testing.T, limits scraping) string {
	t.Helper()
	l := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(limits.serve(shallow{l}, Metrics(func() []shm.RankStats { return make([]shm.RankStats, 20) })))
	return l.Addr().String()
}

// says dials and writes a message; the caller reads what comes back, or nothing.
func says(t *testing.T, address, message string) net.Conn {
	t.Helper()
	k := dial(t, address)
	if strings.Count(message, scrape) > 1 { // what the server writes then soon finds no room
		expect.OK(t, k.(*net.TCPConn).SetReadBuffer(1<<10))
	}
	go func() { _, _ = io.WriteString(k, message) }() // the server may have had enough
	return k
}

// shallow is a listener whose connections soon have no room for what nobody reads, which else takes megabytes each.
type shallow struct{ net.Listener }

func (l shallow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(1 << 10)
	}
	return c, err
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c := expect.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { c.Close() })
	expect.OK(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	return c
}

const scrape = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"

// scraped asks for metrics once.
func scraped(address string) (string, error) {
	client := http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// The dashboard of docs asks for metrics that there are.
func TestTheDashboardAsksForWhatIsServed(t *testing.T) {
	text := string(expect.Must(os.ReadFile("../../../../docs/grafana.json"))(t))
	expect.That(t, json.Valid([]byte(text)), "the dashboard is no JSON")
	served := expect.Must(scraped(scrapesHere(t, scrapes)))(t)
	asked := regexp.MustCompile(`khop_[a-z_]+`).FindAllString(text, -1)
	for _, name := range asked {
		bare := strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum")
		expect.That(t, strings.Contains(served, "# TYPE "+bare+" "), "the dashboard asks for %s", name)
	}
	expect.That(t, len(asked) >= 8, "it asks for %v", asked)
}

func TestWhoReadsMetricsCannotTakeAllThereIs(t *testing.T) {
	short := scraping{connections: 4, header: 1 << 10, read: 50 * time.Millisecond, write: 50 * time.Millisecond,
		idle: 50 * time.Millisecond}
	for name, message := range map[string]string{ // of each of six clients, which then say no more
		"silent":               "",
		"half a request":       "GET /met",
		"a body without end":   "GET /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999\r\n\r\n",
		"idle after a request": scrape,
		"reads nothing":        strings.Repeat(scrape, 300),
	} {
		t.Run(name, func(t *testing.T) {
			address := scrapesHere(t, short)
			var clients []net.Conn
			for range 6 {
				clients = append(clients, says(t, address, message))
			}
			text, err := scraped(address)
			for end := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(end); {
				text, err = scraped(address) // a busy machine may take longer than this server allows
			}
			expect.That(t, err == nil && strings.Contains(text, "khop_feed_epoch"), "%q, %v", text, err)
			for _, k := range clients { // the server ends them all
				_, err := io.Copy(io.Discard, k)
				expect.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "a connection is still open")
			}
		})
	}
}

// However many say half of what they want, or read nothing, who asks is answered within seconds.
func TestACrowdThatWaitsIsNotInTheWayOfOthers(t *testing.T) {
	for name, message := range map[string]string{"silent": "", "half a request": "GET /met",
		"reads nothing": strings.Repeat(scrape, 300)} {
		t.Run(name, func(t *testing.T) {
			address := scrapesHere(t, scrapes)
			for range 100 {
				says(t, address, message)
			}
			begin := time.Now()
			text, err := scraped(address)
			took := time.Since(begin)
			expect.That(t, err == nil && strings.Contains(text, "khop_feed_epoch"), "%q, %v", text, err)
			expect.That(t, took < 5*time.Second, "after %v", took)
		})
	}
}

func TestSoManyReadMetricsAtATimeAndTheOldestGivesWay(t *testing.T) {
	address := scrapesHere(t, scraping{connections: 2, header: 1 << 10, read: time.Hour, write: time.Hour,
		idle: time.Hour})
	ask := func(k net.Conn) error {
		_, err := io.WriteString(k, scrape)
		if err != nil {
			return err
		}
		r, err := http.ReadResponse(bufio.NewReader(k), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		return errors.Join(err, r.Body.Close())
	}
	a, b, c := dial(t, address), dial(t, address), dial(t, address)
	expect.OK(t, errors.Join(ask(b), ask(c), ask(b)))
	_, err := io.ReadAll(a)
	expect.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "the first of three is still open")
	c.Close() // its place is free, once the server has seen that
	d := dial(t, address)
	expect.OK(t, errors.Join(ask(d), ask(d)))
}

func TestARequestForMetricsMayHaveSoManyBytes(t *testing.T) {
	address := scrapesHere(t, scrapes)
	for n, status := range map[int]int{1 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		k := dial(t, address)
		go fmt.Fprintf(k, "GET /metrics HTTP/1.1\r\nHost: here\r\nX: %s\r\n\r\n", strings.Repeat("x", n))
		r, err := http.ReadResponse(bufio.NewReader(k), nil)
		expect.That(t, err == nil && r.StatusCode == status, "a header of %d bytes: %v, %v", n, r, err)
	}
}
