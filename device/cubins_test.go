package device

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestACubinIsLoadedInPlaceOfItsPTX: that of the device, or of a lower minor number, and the PTX where the driver
// refuses it.
func TestACubinIsLoadedInPlaceOfItsPTX(t *testing.T) {
	const outOfMemory, noBinary = 2, 209
	defer func() { cubins = nil }()
	files := fstest.MapFS{}
	for _, arch := range []int{80, 90} {
		name := fmt.Sprintf("cubins/%.8x.sm_%d.cubin", sha256.Sum256([]byte("ptx")), arch)
		files[name] = &fstest.MapFile{Data: fmt.Appendf(nil, "cubin %d", arch)}
	}
	for name, c := range map[string]struct {
		compute int
		without bool
		image   string
		fail    map[string]result
		loads   []string
		cubin   int
		want    error
	}{
		"the device's own":      {80, false, "ptx", nil, []string{"cubin 80"}, 80, nil},
		"a lower minor number":  {89, false, "ptx", nil, []string{"cubin 80"}, 80, nil},
		"another major number":  {120, false, "ptx", nil, []string{"ptx"}, 0, nil},
		"a higher minor number": {75, false, "ptx", nil, []string{"ptx"}, 0, nil},
		"other kernels":         {80, false, "other", nil, []string{"other"}, 0, nil},
		"a build without":       {80, true, "ptx", nil, []string{"ptx"}, 0, nil},
		"refused": {90, false, "ptx", map[string]result{"load cubin 90": noBinary},
			[]string{"cubin 90", "ptx"}, 0, nil},
		"both refused": {90, false, "ptx", map[string]result{"load cubin 90": noBinary, "load ptx": noBinary},
			[]string{"cubin 90", "ptx"}, 0, errInvalidImage},
		"no memory: not tried anew": {90, false, "ptx", map[string]result{"load cubin 90": outOfMemory},
			[]string{"cubin 90"}, 0, ErrOutOfMemory},
	} {
		f := (&fake{ver: 12040, devices: 1, compute: c.compute}).use(t)
		if cubins = files; c.without {
			cubins = nil
		}
		d := expect.Must(Open(0))(t)
		f.fail = c.fail
		m, err := d.loadBest([]byte(c.image))
		expect.That(t, errors.Is(err, c.want) && slices.Equal(f.loaded, c.loads),
			"%s: %v after loading %q, want %v after %q", name, err, f.loaded, c.want, c.loads)
		if err == nil {
			code, refused := m.Code(), len(c.loads) > 1
			if m.Cubin != c.cubin || (m.Refused != nil) != refused || strings.Contains(code, "PTX") != (c.cubin == 0) ||
				strings.Contains(code, "cubin for sm_") != (c.cubin > 0 || refused) {
				t.Errorf("%s: cubin %d, refused %v: %s", name, m.Cubin, m.Refused, code)
			}
			err = m.Close()
		}
		f.fail = nil
		if c.want != nil {
			err = nil
		}
		err = errors.Join(err, d.Close())
		expect.That(t, err == nil, "%s: %v", name, err)
	}
}
