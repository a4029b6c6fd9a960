package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/cmd/khop/internal/livepage"
	"github.com/khop-gnn/khop/cmd/khop/internal/prometheus"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// liveRanks is how two ranks go.
func liveRanks() []shm.RankStats {
	took := func(n uint64, each time.Duration) loader.Durations {
		return loader.Durations{Count: n, Sum: time.Duration(n) * each, P50: each, P90: 2 * each, P99: 3 * each}
	}
	var ranks []shm.RankStats
	for i := range 2 {
		n := uint64(1000 + 500*i)
		ranks = append(ranks, shm.RankStats{Rank: i, Epoch: 3, Waiting: []string{"loader", ""}[i], Sent: n,
			Report: loader.Report{Rule: "few workers", Text: "It <waited>.", Option: "workers", Value: "8"},
			Loader: loader.Stats{Batches: n, Edges: 7e6, Bytes: 3e9, Sample: took(n, 4*time.Millisecond),
				Gather: took(n, time.Millisecond), Wait: took(n, 20*time.Microsecond), Device: "cpu", Slots: 6,
				SlotsHeld: 2, Memory: loader.Memory{Batches: 300e6, Scratch: 50e6}, MemoryPeak: 400e6}})
	}
	return ranks
}

// moving shows on a page ranks that go on, by a second a look.
func moving(t *testing.T) (url string) {
	looks := 0
	p := expect.Must(livepage.Listen("127.0.0.1:0", func() any {
		looks++
		s := liveState{What: "khop serve shop.khop", Seconds: float64(120 + looks), Limit: 1e9, Ranks: liveRanks(),
			Said: "The loop waited for the loader 30 % of the time. Try --workers 8."}
		for i := range s.Ranks {
			s.Ranks[i].Loader.Batches += uint64(100*looks) + uint64(80*math.Sin(float64(looks+i)/4)+80)
		}
		return s
	}))(t)
	stop := prometheus.Serve(p, p)
	t.Cleanup(stop)
	return p.URL()
}

// showLive shows them on a page.
func showLive(t *testing.T, address string) (url string) {
	t.Helper()
	env := &environment{stdout: io.Discard, stderr: io.Discard}
	env.memory.bytes = 1e9
	url, stop, err := liveFlag{HTTP: address}.showLoaders(env, "khop serve shop.khop", liveRanks)
	expect.OK(t, err)
	t.Cleanup(stop)
	return url
}

func get(t *testing.T, url, host string) (status int, body string, header http.Header) {
	t.Helper()
	r := expect.Must(http.NewRequest(http.MethodGet, url, nil))(t)
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer := expect.Must(client.Do(r))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(expect.Must(io.ReadAll(answer.Body))(t)), answer.Header
}

func TestALivePageIsForWhoMayLook(t *testing.T) {
	url := showLive(t, "127.0.0.1:0")
	status, body, header := get(t, url, "")
	policy := header.Get("Content-Security-Policy")
	nonce := regexp.MustCompile(`script-src 'nonce-([A-Z2-7]+)'`).FindStringSubmatch(policy)
	expect.Ensure(t, status == 200 && len(nonce) == 2 && strings.HasPrefix(policy, "default-src 'none'"), "%d: %s",
		status, policy)
	expect.That(t, strings.Count(body, nonce[1]) == 2 && !strings.Contains(body, "NONCE"), "the page lacks its nonce")
	elsewhere := regexp.MustCompile(`(src|href)="(https?:)?//|@import|url\(`).FindString(body)
	expect.That(t, elsewhere == "", "it has parts elsewhere: %s", elsewhere)
	_, again, _ := get(t, url, "")
	expect.That(t, again != body, "a nonce is used twice")
	status, body, _ = get(t, url+"state", "")
	var state liveState
	expect.OK(t, json.Unmarshal([]byte(body), &state))
	expect.Same(t, state.Ranks, liveRanks())
	expect.That(t, status == 200 && state.Said == "It <waited>. Try --workers 8." && state.Limit == 1e9, "%+v", state)
	for _, host := range []string{"evil.example", "192.168.1.2:80"} {
		status, _, _ = get(t, url+"state", host)
		expect.That(t, status == 403, "asked as %s: %d", host, status)
	}
	answer := expect.Must(http.Post(url, "text/plain", strings.NewReader("x")))(t)
	expect.OK(t, answer.Body.Close())
	expect.That(t, answer.StatusCode == 405, "POST: %d", answer.StatusCode)

	open := strings.Replace(showLive(t, "0.0.0.0:0"), "0.0.0.0", "127.0.0.1", 1)
	bare, token, _ := strings.Cut(open, "?token=")
	for to, want := range map[string]int{open: 200, bare: 403, bare + "state": 403, bare + "state?token=" + token: 200,
		bare + "?token=" + token[1:]: 403} {
		status, _, _ = get(t, to, "")
		expect.That(t, status == want && len(token) > 20, "%s: %d, want %d", to, status, want)
	}
	_, _, err := liveFlag{HTTP: "no-address"}.showLoaders(&environment{}, "", liveRanks)
	expect.That(t, errors.Is(err, livepage.ErrAddress), "no address: %v", err)
}

// The page of a conversion shows its stages; it has no loaders.
func TestALivePageShowsProgress(t *testing.T) {
	env := &environment{stdout: io.Discard, stderr: io.Discard}
	bar := env.newProgress()
	stop := expect.Must(liveFlag{HTTP: "127.0.0.1:0"}.showProgress(env, "khop convert", bar))(t)
	stop()
	report := bar.report()
	expect.Ensure(t, report != nil, "nobody reports to the page")
	for i := range 100 {
		report(fmt.Sprint("part ", i/50), int64(i), 100)
	}
	states := bar.states()
	expect.That(t, len(states) == 2 && states[0].Done == 49 && states[1].Done == 99 && states[1].Total == 100, "%+v",
		states)
	for i := range 1000 {
		report(fmt.Sprint(i), 1, 0)
	}
	states = bar.states()
	expect.That(t, len(states) == mostStages && states[mostStages-1].Name == "999", "%d stages", len(states))
}

// chromium runs the browser, which looks at a page; it skips where there is none.
func chromium(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium")
	}
	var out, errs strings.Builder
	all := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir=" + t.TempDir(), "--virtual-time-budget=4000"}, args...)
	c := exec.Command(path, all...)
	c.Stdout, c.Stderr = &out, &errs
	expect.OK(t, c.Run())
	return out.String(), errs.String()
}

// The browser shows the values that the state has, and finds nothing wrong with the page.
func TestABrowserShowsTheState(t *testing.T) {
	url := showLive(t, "127.0.0.1:0")
	dom, log := chromium(t, "--dump-dom", url)
	expect.That(t, !strings.Contains(log, "CONSOLE"), "the console says: %s", log)
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(dom, " ")
	words := strings.Join(strings.Fields(text[strings.Index(text, "Pause"):]), " ")
	for _, want := range []string{"It &lt;waited&gt;. Try --workers 8.", "2,500 batches, 14,000,000 edges, 6.00 GB",
		"sample 4.00 ms 12.00 ms 10.00 s", "loop waits 20.0 µs 60.0 µs 50.00 ms", "700 MB of 1.00 GB", "scratch 100 MB",
		"0 3 1,000 0.0 2 of 6 loader", "1 3 1,500 0.0 2 of 6 -"} {
		expect.That(t, strings.Contains(words, want), "the page lacks %q: %s", want, words)
	}
	_, page, _ := get(t, url, "")
	accessible(t, page, url+"state")
	uncut(t, page, url+"state")
	screenshots(t, "live", moving(t), 1050)
}

// screenshots has the browser make pictures of a page, so high, for who wants to look at them in the folder
// KHOP_SCREENSHOTS.
func screenshots(t *testing.T, name, url string, high int) {
	t.Helper()
	dir := os.Getenv("KHOP_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, width := range windowWidths {
		for _, dark := range []string{"", "dark"} {
			args := []string{fmt.Sprintf("--screenshot=%s/%s-%d%s.png", dir, name, width, dark),
				fmt.Sprintf("--window-size=%d,%d", width, high), "--hide-scrollbars", "--virtual-time-budget=60000"}
			if dark != "" {
				args = append(args, "--blink-settings=preferredColorScheme=0")
			}
			chromium(t, slices.Concat(args, []string{url})...)
		}
	}
}
