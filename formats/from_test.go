package formats

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestAnAddressIsRefusedByNameOfWhatOpensIt without what may be a secret.
func TestAnAddressIsRefusedByNameOfWhatOpensIt(t *testing.T) {
	for address, shown := range map[string]string{"s3://bucket/x.khop": "s3://bucket/x.khop: ",
		"https://me:secret@server/x": "https://..."} {
		err := expect.Err(Open(address))
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), shown) &&
			strings.Contains(err.Error(), "formats/remote") && !strings.Contains(err.Error(), "secret"), "%v", err)
	}
}
