package remote

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestMain(m *testing.M) {
	expect.ScratchInMemory()
	os.Exit(m.Run())
}
