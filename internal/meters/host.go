package meters

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// host is the RAPL counters that can be read: of whole processor packages, and of memory where it has its own.
type host struct {
	root    fs.FS
	domains []domain
}

type domain struct {
	name  string // as the system calls it, such as "package-0"
	file  string
	limit uint64 // the counter begins anew at 0 after this value
}

// hostState is the counters' values in microjoules, by domain.
type hostState []uint64

// openHost returns the host's counters, or an error that says why there are none.
func openHost() (*host, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("host energy: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	return findHost(os.DirFS("/"))
}

// Zones are named by their place: intel-rapl:0 is a package, intel-rapl:0:1 a part of it. AMD's have the same names.
var zones = regexp.MustCompile(`^intel-rapl:[0-9]+(:[0-9]+)?$`)

func findHost(root fs.FS) (*host, error) {
	const dir = "sys/class/powercap"
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil, errors.New("host energy: this system has no /sys/class/powercap: a virtual machine seldom has")
	}
	h := &host{root: root}
	var denied error
	for _, e := range entries {
		if !zones.MatchString(e.Name()) {
			continue
		}
		zone := path.Join(dir, e.Name())
		name, err := fs.ReadFile(root, path.Join(zone, "name"))
		if err != nil {
			continue
		}
		d := domain{name: strings.TrimSpace(string(name)), file: path.Join(zone, "energy_uj")}
		if !strings.HasPrefix(d.name, "package") && d.name != "dram" { // the others are parts of a package
			continue
		}
		if d.limit, err = number(root, path.Join(zone, "max_energy_range_uj")); err != nil {
			denied = err
			continue
		}
		if _, err := number(root, d.file); err != nil {
			denied = err
			continue
		}
		h.domains = append(h.domains, d)
	}
	switch {
	case denied != nil: // some without the others would be no sum
		return nil, fmt.Errorf("host energy: %w; root may read it", denied)
	case len(h.domains) == 0:
		return nil, errors.New("host energy: /sys/class/powercap has no processor package")
	}
	return h, nil
}

func number(root fs.FS, file string) (uint64, error) {
	b, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

func (h *host) names() []string {
	names := make([]string, len(h.domains))
	for i, d := range h.domains {
		names[i] = d.name
	}
	return names
}

func (h *host) read() (hostState, error) {
	s := make(hostState, len(h.domains))
	for i, d := range h.domains {
		var err error
		if s[i], err = number(h.root, d.file); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// advance returns the joules since s, and makes s the present. A counter must not go around twice between two calls.
func (h *host) advance(s hostState) (joules float64, err error) {
	now, err := h.read()
	if err != nil {
		return 0, err
	}
	for i, d := range h.domains {
		if now[i] >= s[i] {
			joules += float64(now[i]-s[i]) / 1e6
		} else {
			joules += float64(now[i]+d.limit-s[i]) / 1e6
		}
		s[i] = now[i]
	}
	return joules, nil
}
