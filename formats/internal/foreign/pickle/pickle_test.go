package pickle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
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
	ledger := sourcetest.Limited(1 << 16)
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
	ledger := sourcetest.Limited(16 << 20)
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
		ledger := sourcetest.Limited(16 << 20)
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
	ledger := sourcetest.Limited(1000)
	if _, err := Ints(a, ledger); !errors.Is(err, pinned.ErrLimit) || ledger.Total() != 0 {
		t.Errorf("%v, %d bytes are counted", err, ledger.Total())
	}
	ledger.SetLimit(2000)
	_, err := Ints(a, ledger)
	expect.That(t, err == nil && ledger.Total() == 800, "%v, %d bytes are counted", err, ledger.Total())
}

// arraysIn spells the arrays that a value has.
func arraysIn(v any, level int) string {
	if level++; level > 8 {
		return ""
	}
	switch x := v.(type) {
	case *List:
		return arraysIn(Tuple(x.Items), level)
	case *Dict:
		return arraysIn(Tuple(x.Values), level)
	case Tuple:
		s := ""
		for _, i := range x {
			s += arraysIn(i, level)
		}
		return s
	case *Object:
		a, err := AsArray(x)
		if err != nil {
			return fmt.Sprintf(" %v%s", err, arraysIn(x.State, level))
		}
		l := &pinned.Ledger{}
		ints, err := Ints(a, l)
		return fmt.Sprintf(" %v %v %t %x: %v, %v, %d of %d bytes", a.DType, a.Shape, a.Fortran, a.Data, ints, err,
			l.Total(), l.Peak())
	}
	return ""
}

// TestWhatComesOfAnyPickle: see sourcetest.Outcomes.
func TestWhatComesOfAnyPickle(t *testing.T) {
	const array = "" +
		"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01bt\x52(K\x01%scnumpy\ndtype\n" +
		"(U\x02%sI0\nI1\ntR(I3\nU\x01%sNNNI-1\nI-1\nI0\ntb%sU%stb."
	of := map[string]string{
		"lines": "(dp0\nVa\np1\n(lp2\nI1\naI-2\naF2.5\naNaI01\naI00\naL7L\nag1\na(I1\nI2\nlp3\na(ta(I3\nI4\ndas.",
		"numbers": "" +
			"\x80\x02](K\xffM\xff\xfeJ\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00\x88\x89\x8a\x00\x8a\x02\x00" +
			"\x80\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x8b\x01\x00\x00\x00\x07e.",
		"texts": "\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00](U\x01aT\x01\x00\x00\x00bC\x01cB\x01\x00\x00\x00d" +
			"\x8e\x01\x00\x00\x00\x00\x00\x00\x00e\x96\x01\x00\x00\x00\x00\x00\x00\x00fX\x01\x00\x00\x00g\x8c\x01h" +
			"\x8d\x01\x00\x00\x00\x00\x00\x00\x00iS'it\\'s \\x41 \\u00e9\\n\"'\nS\"'\"\nVj\ne.",
		"kept": "" +
			"](K\x01q\x07h\x07K\x02r\x08\x00\x00\x00j\x08\x00\x00\x00\x94h\x02Va\np5\ng5\n2(K\x01K\x021(0(K\x0910e.",
		"collections": "\x80\x04(]K\x01a(K\x02K\x03e}K\x01K\x02s(K\x03K\x04K\x05K\x06u\x8f(K\x01\x90" +
			"(K\x01K\x02\x91K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87)(K\x01K\x02tt.",
		"objects": "\x80\x04](ccollections\nOrderedDict\n)RX\x01\x00\x00\x00kK\x01s" +
			"ccollections\ndefaultdict\n(c__builtin__\nlist\ntRc_codecs\nencode\n(X\x02\x00\x00\x00\xc3\xa9X\x06\x00" +
			"\x00\x00latin1tR\x8c\x08builtins\x8c\x09bytearray\x93C\x02ab\x85R\x8c\x08builtins\x8c\x03set\x93)\x81}b" +
			"e.",
		"scipy": "ccopy_reg\n_reconstructor\n(cscipy.sparse.csr\ncsr_matrix\nc__builtin__\nobject\nNtR(dVa\nI1\nsb.",
	}
	for _, c := range [][4]string{{"i1", "|", "I00\n", "\x02\xff\x01"}, {"u1", "|", "I00\n", "\x02\xff\x01"},
		{"i2", "<", "I00\n", "\x04\x00\x01\xff\xff"}, {"u2", "<", "I00\n", "\x04\x00\x01\xff\xff"},
		{"i4", "<", "I00\n", "\x08\x00\x01\x00\x00\xff\xff\xff\xff"}, {"u4", "<", "I00\n", "\x04\xff\xff\xff\xff"},
		{"i8", "<", "I01\n", "\x08\x01\x00\x00\x00\x00\x00\x00\x80"},
		{"u8", "<", "I00\n", "\x08\x01\x00\x00\x00\x00\x00\x00\x80"},
		{"f4", "<", "I00\n", "\x04\x00\x00\x80\x3f"},
		{"b1", "|", "I00\n", "\x02\x00\x01"}, {"i4", ">", "I00\n", "\x04abcd"}} {
		width := int(c[0][1] - '0')
		of["array "+c[0]+c[1]] = fmt.Sprintf(array, fmt.Sprintf("K%c\x85", byte((len(c[3])-1)/width)), c[0], c[1], c[2],
			c[3])
	}
	of["turned"] = fmt.Sprintf(array, "K\x02K\x03\x86", "u1", "|", "I01\n", "\x06\x01\x02\x03\x04\x05\x06")
	for _, part := range []string{"graph", "allx", "ally"} {
		b := expect.Must(os.ReadFile("../planetoid/testdata/ind.tiny." + part))(t)
		of[part] = string(b)
	}
	sourcetest.Texts(t, of, func(text string) []sourcetest.Seen {
		ledger := sourcetest.Limited(1 << 20)
		r := bufio.NewReader(strings.NewReader(text))
		v, err := Read(r, func(n Name) bool { return n == "some.name" }, ledger)
		if err != nil {
			return []sourcetest.Seen{{Way: "read", Err: err, Values: fmt.Sprint(ledger.Total(), " bytes")}}
		}
		return []sourcetest.Seen{{Way: "read", Values: fmt.Sprintf(
			"%s: %s%s, %d bytes, %d are left, text %q, torch %t", spell(deep(v, 0)), Describe(v), arraysIn(v, 0),
			ledger.Total(), r.Buffered(), Text(v), LooksLikeTorch([]byte(text)))}}
	})
}

// deep makes objects tuples, so that spell writes what they have.
func deep(v any, level int) any {
	if level++; level > 8 {
		return ".." // it may hold itself
	}
	switch x := v.(type) {
	case *Object:
		return Tuple{"object", string(x.Class), deep(x.Args, level), deep(x.State, level), deep(Tuple(x.Items), level)}
	case *Persistent:
		return Tuple{"persistent", deep(x.ID, level)}
	case Name:
		return Tuple{"name", string(x)}
	case *List:
		return &List{Items: items(x.Items, level)}
	case *Dict:
		return &Dict{Keys: items(x.Keys, level), Values: items(x.Values, level)}
	case Tuple:
		return Tuple(items(x, level))
	}
	return v
}

func items(list []any, level int) []any {
	t := make([]any, len(list))
	for i := range list {
		t[i] = deep(list[i], level)
	}
	return t
}
