package ranges

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/address"
)

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
