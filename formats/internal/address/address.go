package address

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrAddress is returned for an address that cannot be one.
var ErrAddress = errors.New("not an address that khop reads")

// schemes are those of addresses.
var schemes = []string{"s3", "gs", "https", "http", "hf"}

// Location is the address of an object, or of a folder of objects.
type Location struct {
	Scheme string
	Host   string // a bucket; a server; of hf "datasets/OWNER/NAME@REVISION"
	Path   string // with slashes between names, and none around them
}

// Is reports whether a name is an address, and not a file's.
func Is(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && slices.Contains(schemes, scheme)
}

// Parse takes an address apart. ErrAddress, without what may be secret.
func Parse(address string) (l Location, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if !Is(address) {
		return l, fmt.Errorf("%w: it begins with none of %s", ErrAddress, strings.Join(schemes, "://, ")+"://")
	}
	host, name, _ := strings.Cut(rest, "/")
	if strings.Contains(host, "@") || scheme != "s3" && scheme != "gs" && strings.ContainsAny(name, "?#") {
		return l, fmt.Errorf("%w: credentials, queries and fragments do not belong there: khop takes credentials from "+
			"where the provider's programs do", ErrAddress)
	}
	if scheme == "hf" {
		parts := strings.SplitN(rest, "/", 4)
		if len(parts) < 3 || host != "datasets" || parts[1] == "" || parts[2] == "" {
			return l, fmt.Errorf("%w: it must be hf://datasets/OWNER/NAME@REVISION/PATH", ErrAddress)
		}
		host, name = strings.Join(parts[:3], "/"), strings.Join(parts[3:], "/")
	} else if u, err := url.Parse(scheme + "://" + host); err != nil || u.Host == "" {
		return l, fmt.Errorf("%w: it names no server or bucket", ErrAddress)
	}
	name = strings.TrimSuffix(name, "/")
	if name != "" && !fs.ValidPath(name) {
		return l, fmt.Errorf("%w: a path with . or .. or empty names", ErrAddress)
	}
	return Location{scheme, host, name}, nil
}

// Shown returns what of an address may be shown: all of it, or the beginning of what Parse refuses, which may hold a
// secret.
func Shown(text string) string {
	if l, err := Parse(text); err == nil {
		return l.String()
	}
	for i := range text {
		if i > 8 && text[i] == '/' || text[i] == '@' || text[i] == '?' {
			return text[:min(i, 8)] + "..."
		}
	}
	return text
}

// String returns the address.
func (l Location) String() string {
	if l.Path == "" {
		return l.Scheme + "://" + l.Host
	}
	return l.Scheme + "://" + l.Host + "/" + l.Path
}

// Split takes the name of a file, or an address, apart: into a folder, and the name there, which has this number of
// folders.
func Split(name string, folders int) (folder, rest string) {
	name = filepath.ToSlash(name)
	at := len(name)
	for range folders + 1 {
		if next := strings.LastIndexByte(name[:at], '/'); next >= 0 {
			at = next
		}
	}
	return name[:at], strings.TrimPrefix(name[at:], "/")
}

// Join returns the address of what lies in a folder under a name with slashes.
func (l Location) Join(name string) Location {
	l.Path = path.Join(l.Path, name)
	return l
}

// Base returns the last name of the address.
func (l Location) Base() string {
	if l.Path == "" {
		return path.Base(l.Host)
	}
	return path.Base(l.Path)
}
