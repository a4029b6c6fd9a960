package pickle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func parse(text string) (any, error) { return Read(bufio.NewReader(strings.NewReader(text)), nil, nil) }

// spell writes a value in one line.
func spell(v any) string {
	switch x := v.(type) {
	case *List:
		return "list" + spell(Tuple(x.Items))
	case Tuple:
		var s []string
		for _, i := range x {
			s = append(s, spell(i))
		}
		return "(" + strings.Join(s, " ") + ")"
	case *Dict:
		return "dict" + spell(Tuple(x.Keys)) + spell(Tuple(x.Values))
	case []byte:
		return fmt.Sprintf("b%q", x)
	case string:
		return fmt.Sprintf("%q", x)
	}
	return fmt.Sprint(v)
}

func TestPlainValuesAreRead(t *testing.T) {
	const big = `("a" "b")(list(1 -2 2.5 <nil> true) ("é" 1180591620717411303424))`
	for text, want := range map[string]string{
		// pickle.dumps({'a': [1, -2, 2.5, None, True], 'b': ('é', 1 << 70)}, 0, 2) of Python 3.11
		"(dp0\nVa\np1\n(lp2\nI1\naI-2\naF2.5\naNaI01\nas.": `dict("a")(list(1 -2 2.5 <nil> true))`,
		"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00N\x88e" +
			"X\x01\x00\x00\x00bq\x03X\x02\x00\x00\x00\xc3\xa9q\x04\x8a\t" +
			"\x00\x00\x00\x00\x00\x00\x00\x00@\x86q\x05u.": "dict" + big,
		"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94C\x01x" +
			"\x94\x8c\x01b\x94h\x02u.": `dict("a" "b")(b"x" b"x")`,
		"S'it\\'s \\x41'\n.": `b"it's A"`,
	} {
		v, err := parse(text)
		got := spell(v)
		expect.That(t, err == nil && got == want, "%q\ngot  %s, %v\nwant %s", text, got, err, want)
	}
}

// TestNothingIsRun: what a pickle asks to be called is refused when it is named.
func TestNothingIsRun(t *testing.T) {
	for _, text := range []string{
		"cos\nsystem\n(S'touch /tmp/owned'\ntR.",
		"\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03.",
		"\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00" +
			"\x8c\x08builtins\x94\x8c\x04eval\x94\x93\x94\x8c\x011\x94\x85\x94R\x94.",
		"(S'id'\nios\nsystem\n.",
		"\x82\x01.", "(cos\nsystem\nS'id'\no.",
	} {
		v, err := parse(text)
		expect.That(t, err != nil && (errors.Is(err, ErrForbidden) || errors.Is(err, ErrFormat)), "%q: %v, %v", text, v,
			err)
	}
	expect.Says(t, expect.Err(parse("cos\nsystem\n.")), ErrForbidden, "os.system", "os.system")
}

func TestDamagedPicklesAreErrors(t *testing.T) {
	for _, text := range []string{"", ".", "K", "(", "a.", "]K\x01", "h\x05.", "X\xff\xff\xff\x7fabc",
		"\x8e\xff\xff\xff\xff\xff\xff\xff\xffabc",
		"t.", "\x86.", "R.", "NNb.", "(I1\nd.", "\x80\x09.", "\xff.", strings.Repeat("(", 1<<13), "I1x\n.", "S'a\n."} {
		v, err := parse(text)
		expect.That(t, errors.Is(err, ErrFormat), "%.20q: %v, %v", text, v, err)
	}
	ledger := &pinned.Ledger{}
	ledger.SetLimit(1 << 16)
	expect.Is(t, expect.Err(Read(bufio.NewReader(strings.NewReader(strings.Repeat("]", 1<<20))), nil, ledger)),
		pinned.ErrLimit, "a million lists in 64 KiB")
}

// TestSharedValuesTakeNoMoreThanTheLedgerGives: what a pickle holds once and names often is neither written out nor
// copied for free.
func TestSharedValuesTakeNoMoreThanTheLedgerGives(t *testing.T) {
	const twice = "2\x86" // a pair of the same
	for _, text := range []string{
		"N" + strings.Repeat(twice, 40) + "\x8c\x01n\x93.", // a name of 2^40 parts
		"\x8c\x01m" + "N" + strings.Repeat(twice, 40) + "\x93.",
	} {
		v, err := parse(text)
		expect.That(t, errors.Is(err, ErrFormat), "%.20q: %v", text, err == nil && v != nil)
	}
	v, err := parse("}N" + strings.Repeat(twice, 40) + "Ns.")
	says := Describe(v)
	expect.That(t, err == nil && len(says) <= 100, "a key of 2^40 parts: %.100q, %v", says, err)
	const n = 1 << 20
	ledger := &pinned.Ledger{}
	ledger.SetLimit(16 << 20)
	long := "X\x00\x00\x10\x00" + strings.Repeat("a", n)
	for _, text := range []string{
		long + "q\x010c_codecs\nencode\nq\x020" + strings.Repeat("h\x02h\x01N\x86R", 1<<10) + ".",
		"B" + long[1:] + "q\x010" + strings.Repeat("}h\x01Ns", 1<<10) + ".",
	} {
		ledger.Give(pinned.Sources, ledger.Used(pinned.Sources))
		expect.Is(t, expect.Err(Read(bufio.NewReader(strings.NewReader(text)), nil, ledger)), pinned.ErrLimit,
			"%.1q: 1024 copies of a mebibyte in 16 MiB", text)
	}
	if v, err := parse("\x8b\x00\x00\x40\x00" + strings.Repeat("\x01", 4<<20) + "."); err != nil || v == nil {
		t.Errorf("a long integer: %v", err) // in time that grows with its length, not with the square
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffe\x8a\x01\x05u."))
	f.Add([]byte("cnumpy\nndarray\nq\x03K\x00\x85q\x04R."))
	f.Fuzz(func(t *testing.T, text []byte) {
		ledger := &pinned.Ledger{}
		ledger.SetLimit(16 << 20)
		v, err := Read(bufio.NewReader(bytes.NewReader(text)), nil, ledger)
		if err != nil {
			return
		}
		_ = Describe(v)
		if a, err := AsArray(v); err == nil {
			_, _ = Ints(a, nil)
		}
	})
}

// TestIntegersOfAnArrayAreCounted: 8 bytes each, for those of one byte too.
func TestIntegersOfAnArrayAreCounted(t *testing.T) {
	a := &array.Array{DType: unified.Int8, Shape: []int64{100}, Data: make([]byte, 100)}
	ledger := &pinned.Ledger{}
	ledger.SetLimit(1000)
	if _, err := Ints(a, ledger); !errors.Is(err, pinned.ErrLimit) || ledger.Total() != 0 {
		t.Errorf("%v, %d bytes are counted", err, ledger.Total())
	}
	ledger.SetLimit(2000)
	_, err := Ints(a, ledger)
	expect.That(t, err == nil && ledger.Total() == 800, "%v, %d bytes are counted", err, ledger.Total())
}
