package names

import (
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestNamesAreTakenOrRefusedByOneRule(t *testing.T) {
	for _, name := range []string{"a", "año", "an\u0303o", "שלום", "مرحبا", "名前", "👩\u200d🔬",
		"a b", "../x/y", "con", "-", "\u00a0",
		"\U00020000", "\ufffd", strings.Repeat("x", Most)} {
		expect.Is(t, Check("column", name), nil, name)
	}
	for name, want := range map[string]string{
		"": "must not be empty", "s\xf1": "byte 1 of it, 0xf1, is not UTF-8", "\xc3\xc3\xa9": "byte 0 of it, 0xc3",
		"\xff":         "byte 0",
		"\xed\xa0\x80": "byte 0 of it, 0xed", "a:b": "must not contain any of : ; = ,",
		"a\u037eb": "any of", "a\tb": "U+0009",
		"a\x00b": "U+0000", "a\u0085": "U+0085", "a\u2028": "U+2028", "\u202ea": "U+202E", "\ufeffa": "U+FEFF",
		strings.Repeat("x", Most+1): "has at most 4096 bytes, not 4097",
	} {
		err := Check("column", name)
		expect.That(t, errors.Is(err, ErrSchema) && strings.Contains(err.Error(), want), "%q: %v", name, err)
	}
}

func TestNamesThatLookAlikeAreRefused(t *testing.T) {
	for _, c := range [][2]string{{"año", "an\u0303o"}, {"K", "\u212a"}, {"ab", "a\u200bb"},
		{"\uac00", "\u1100\u1161"}} {
		var n Set
		err := n.Add("column", c[0])
		expect.OK(t, err, n.Add("column", c[0]), n.Add("column", "other"))
		err = n.Add("column", c[1])
		expect.That(t, errors.Is(err, ErrSchema) && strings.Contains(err.Error(), "looks like"), "%+q: %v", c, err)
	}
	var n Set
	expect.OK(t, n.Add("", "a"), n.Add("", "A"), n.Add("", "а"), n.Add("", "ａ")) // NFC has these apart
}
