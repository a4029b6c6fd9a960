package expect

import (
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// table has the sentences that errors say, once each, and their keys.
var table struct {
	sync.Mutex
	path  string
	keys  map[string]string // of sentences
	taken map[string]string // the sentences of keys
}

// SentenceKey returns the key by which golden files name a sentence. It stands beside the sentence in the table of all,
// internal/expect/testdata/sentences.txt. Who rewords an error changes its sentence there and keeps the key: no other
// golden file changes. With -rewrite a sentence that is not there is added. To find those that nobody says any more,
// empty the table and write all golden files again: keys stay as they are, but for those of reworded sentences.
func SentenceKey(t testing.TB, sentence string) string {
	t.Helper()
	if sentence == "" {
		return ""
	}
	table.Lock()
	defer table.Unlock()
	if table.keys == nil {
		readTable(t)
	}
	key, ok := table.keys[sentence]
	if ok {
		return key
	}
	for try := sentence; ; try += "." {
		if key = keyOf(try); table.taken[key] == "" {
			break
		}
	}
	table.keys[sentence], table.taken[key] = key, sentence
	if !*rewrite {
		t.Errorf("%s does not have: %s\nif that is meant: go test -run %s -rewrite", table.path, sentence, t.Name())
		return key
	}
	var b strings.Builder
	for _, s := range slices.Sorted(maps.Keys(table.keys)) {
		b.WriteString(table.keys[s] + " " + s + "\n")
	}
	OK(t, os.WriteFile(table.path, []byte(b.String()), 0o644))
	return key
}

func readTable(t testing.TB) {
	t.Helper()
	table.path = filepath.Join(root(t), "internal", "expect", "testdata", "sentences.txt")
	table.keys, table.taken = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(Must(os.ReadFile(table.path))(t))) {
		key, sentence, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if table.taken[key] != "" || table.keys[sentence] != "" {
			t.Errorf("%s has a key or a sentence twice: %s %s", table.path, key, sentence)
		}
		table.keys[sentence], table.taken[key] = key, sentence
	}
}

// keyOf makes a key of four letters.
func keyOf(sentence string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(sentence))
	key, sum := make([]byte, 4), h.Sum64()
	for i := range key {
		key[i] = byte('a' + sum%26)
		sum /= 26
	}
	return string(key)
}

// root is the folder of this module.
func root(t testing.TB) string {
	t.Helper()
	dir := Must(os.Getwd())(t)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		} else if dir == filepath.Dir(dir) {
			t.Fatal("no folder above has a go.mod")
		}
	}
}
