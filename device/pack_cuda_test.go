//go:build cuda && cgo && linux && (amd64 || arm64)

package device

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func packOf(t *testing.T, folder string) []byte {
	t.Helper()
	return expect.Must(os.ReadFile("../" + folder + "/kernels.ptx.zip"))(t)
}

func TestAMemberOfAPackIsDecompressedOnce(t *testing.T) {
	pack := packOf(t, "gather/cuda")
	rows := expect.Must(unpack(pack, "rows.ptx"))(t)
	widen := expect.Must(unpack(pack, "widen.ptx"))(t)
	expect.That(t, bytes.Contains(rows, []byte(".entry gather_rows(")) &&
		bytes.Contains(widen, []byte(".entry gather_widen(")), "it is other text: %.200q, %.200q", rows, widen)
	again := expect.Must(unpack(pack, "rows.ptx"))(t)
	expect.That(t, &again[0] == &rows[0], "it is decompressed twice")
}

func TestADamagedPackIsAnError(t *testing.T) {
	whole := packOf(t, "internal/drivertest")
	want := expect.Must(decompress(whole, "drivertest.ptx"))(t)
	refuses := func(pack []byte) bool { // a change of a time, for one, leaves the text as it was
		got, err := decompress(pack, "drivertest.ptx")
		expect.That(t, err != nil || bytes.Equal(got, want), "a damaged pack gives other text")
		return err != nil
	}
	refused := 0
	for at := range whole {
		damaged := bytes.Clone(whole)
		if damaged[at] ^= 1 << (at % 8); refuses(damaged) {
			refused++
		}
		expect.That(t, refuses(whole[:at]), "the first %d of %d bytes are taken for a pack", at, len(whole))
	}
	expect.That(t, refused > len(whole)*9/10, "%d of %d damaged packs are refused", refused, len(whole))
}

func TestLoadPackedSaysWhichMemberItCannotRead(t *testing.T) {
	d := &Device{}
	for name, c := range map[string]struct {
		pack []byte
		want error
	}{
		"nothing":        {nil, nil},
		"no pack":        {[]byte("no pack"), nil},
		"no such member": {packOf(t, "gather/cuda"), fs.ErrNotExist},
	} {
		_, err := d.LoadPacked(c.pack, "absent.ptx", nil)
		expect.That(t, err != nil && strings.Contains(err.Error(), "absent.ptx") &&
			(c.want == nil || errors.Is(err, c.want)), "%s: %v", name, err)
	}
}
