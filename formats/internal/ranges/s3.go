package ranges

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/khop-gnn/khop/formats/internal/address"
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
