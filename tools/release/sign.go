package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

const sums = "SHA256SUMS"

// sums writes the checksums of all files, as sha256sum -c reads them.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, sums), []byte(b.String()), 0o644)
}

func sumOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// makeKeys writes a key that signs, without a password, and path.pub, which verifies.
func makeKeys(random io.Reader, path string) error {
	public, private, err := minisign.GenerateKey(random)
	if err != nil {
		return err
	}
	text, err := public.MarshalText()
	if err != nil {
		return err
	}
	secret, err := private.MarshalText()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, secret, 0o600), os.WriteFile(path+".pub", append(text, '\n'), 0o644))
}

// sign signs the checksums of a folder, and so all files: the same key and files give the same signature.
func sign(key, folder string) error {
	text, err := os.ReadFile(key)
	if err != nil {
		return err
	}
	var private minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		private, err = minisign.PrivateKeyFromFile(os.Getenv("MINISIGN_PASSWORD"), key)
	} else {
		err = private.UnmarshalText(bytes.TrimSpace(text))
	}
	if err != nil {
		return fmt.Errorf("%s: %w (its password is MINISIGN_PASSWORD)", key, err)
	}
	list, err := os.ReadFile(filepath.Join(folder, sums))
	if err != nil {
		return err
	}
	signature := minisign.SignWithComments(private, list, "file:"+sums, "signature of khop's release")
	return os.WriteFile(filepath.Join(folder, sums+".minisig"), signature, 0o644)
}

// verify fails where the checksums are not as the key has signed them, or a file is not as they say.
func verify(key, folder string) error {
	public, err := minisign.PublicKeyFromFile(key)
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(folder, sums))
	if err != nil {
		return err
	}
	signature, err := os.ReadFile(filepath.Join(folder, sums+".minisig"))
	if err != nil {
		return err
	}
	if !minisign.Verify(public, list, signature) {
		return fmt.Errorf("%s in %s is not what the key %s has signed", sums, folder, key)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		want, name, ok := strings.Cut(line, "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("%s: %q is no line of it", sums, line)
		}
		got, err := sumOf(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s is not the file that was signed: its SHA-256 is %s, not %s", name, got, want)
		}
	}
	fmt.Printf("release: %d files in %s are as they were signed\n", strings.Count(string(list), "\n"), folder)
	return nil
}
