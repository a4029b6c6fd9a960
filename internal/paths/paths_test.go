package paths

import (
	"testing"
	"unicode/utf8"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestPathsAreShownAsTextThatTellsThemApart(t *testing.T) {
	for path, want := range map[string]string{
		"/data/products.khop": "/data/products.khop", "with space": "with space", `back\xff`: `back\xff`,
		"größe 名": "größe 名", "": `""`, `"quoted"`: `"\"quoted\""`, "a\xff": `"a\xff"`, "a\xfe": `"a\xfe"`,
		"a\uFFFD": "\"a\uFFFD\"", "esc\x1b[2J": `"esc\x1b[2J"`, "new\nline": `"new\nline"`, "tab\t": `"tab\t"`,
		"\u202eright": `"\u202eright"`,
	} {
		got := Text(path)
		expect.That(t, got == want, "%q is shown as %s, want %s", path, got, want)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\xff", "a\xfe")
	f.Add("a\uFFFD", "a\xff")
	f.Add(`"a\xff"`, "a\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		expect.That(t, utf8.ValidString(Text(a)) && utf8.ValidString(Message(a)),
			"%q is shown as %q and %q, which is not text", a, Text(a), Message(a))
		if a != b && Text(a) == Text(b) {
			t.Errorf("%q and %q are both shown as %s", a, b, Text(a))
		}
	})
}

func TestTheFirstByteThatIsNotTextIsFound(t *testing.T) {
	for text, want := range map[string]int{"": 0, "größe": 7, "a\xff": 1, "a\uFFFDb\xf1": 5, "ab\xe2\x82": 2,
		"\xf1o": 0} {
		expect.Same(t, NotText(text), want, "%q", text)
		expect.Same(t, NotText([]byte(text)), want, "the bytes of %q", text)
	}
}
