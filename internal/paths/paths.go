// Package paths shows names of files, which are any bytes, where only text will do.
package paths

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a path as messages, manifests and JSON have it: as it is, or in quotes, with Go's escapes, where it
// holds bytes that are not UTF-8 or characters that do not print. Different paths have different texts.
func Text(path string) string {
	if path != "" && path[0] != '"' && Message(path) == path && !strings.ContainsAny(path, "\n\t\uFFFD") {
		return path
	}
	return strconv.Quote(path)
}

// NotText returns where the first byte lies that is not UTF-8; the length of the text where there is none. A character
// that is cut off at the end counts.
func NotText[T ~string | ~[]byte](text T) (at int) {
	for at < len(text) {
		r, n := utf8.DecodeRuneInString(string(text[at:min(at+utf8.UTFMax, len(text))]))
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// Message returns a message in which all that is not text is escaped: bytes that are not UTF-8, and characters that do
// not print, such as those that steer a terminal.
func Message(text string) string {
	bad := func(r rune) bool {
		return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r)
	}
	if strings.IndexFunc(text, bad) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1 || r < utf8.RuneSelf && bad(r):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r != utf8.RuneError && bad(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
