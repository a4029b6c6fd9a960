package main

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image writes an image for both processors, as a layout of OCI in a tar: skopeo, podman and containerd load it. It has
// the program, a user who is not root, a folder for temporary files and the authorities of Mozilla, and no shell.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range linux {
		root, err := r.fileSystem(p)
		if err != nil {
			return err
		}
		layer := static.NewLayer(gzipped(root), types.OCILayer)
		img, err := r.configured(p, layer, root)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "linux", Architecture: p.processor},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.Version}}})
	}
	at := filepath.Join(r.work, "oci")
	if _, err := layout.Write(at, index); err != nil {
		return err
	}
	var files []file
	err := filepath.WalkDir(at, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name := strings.TrimPrefix(filepath.ToSlash(p), filepath.ToSlash(at)+"/")
			files = append(files, file{name, 0o644, p, nil})
		}
		return err
	})
	if err != nil {
		return err
	}
	text, err := tarred(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.Name+"_"+r.Version+"_oci.tar"), text, 0o644)
}

// fileSystem returns what the image holds.
func (r *release) fileSystem(p platform) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return tarred([]file{
		{"usr/bin/khop", 0o755, r.program(p), nil},
		{"usr/share/doc/khop/NOTICES.txt", 0o644, filepath.Join(r.root, "cmd", "khop", "NOTICES.txt"), nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, "", roots.Bytes()},
		{"etc/passwd", 0o644, "", []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"khop:x:65532:65532:khop:/data:/sbin/nologin\n")},
		{"etc/group", 0o644, "", []byte("root:x:0:\nkhop:x:65532:\n")},
	})
}

// configured returns the image of a layer: what runs, as whom, where.
func (r *release) configured(p platform, layer v1.Layer, root []byte) (v1.Image, error) {
	id, _, err := v1.SHA256(bytes.NewReader(root))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON),
		types.OCIManifestSchema1), mutate.Addendum{Layer: unpacked{layer, id}, MediaType: types.OCILayer})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", p.processor, v1.Time{Time: epoch}
	config.Config = v1.Config{User: "65532:65532", WorkingDir: "/data", Entrypoint: []string{"/usr/bin/khop"},
		Env: []string{"PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{"org.opencontainers.image.title": r.Name,
			"org.opencontainers.image.description": r.Summary, "org.opencontainers.image.version": r.Version,
			"org.opencontainers.image.licenses": r.License, "org.opencontainers.image.source": r.Source,
			"org.opencontainers.image.revision": r.commit}}
	return mutate.ConfigFile(img, config)
}

// unpacked is a layer that knows its digest before compression.
type unpacked struct {
	v1.Layer
	id v1.Hash
}

// DiffID returns that digest.
func (u unpacked) DiffID() (v1.Hash, error) { return u.id, nil }
