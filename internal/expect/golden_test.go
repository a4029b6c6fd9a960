package expect

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// placed is an error as formats.Error is one.
type placed struct {
	Path   string
	Row    int64
	Remedy string
	Err    error

	unit string
}

func (p *placed) Error() string {
	return fmt.Sprint(p.Path, ": ", p.unit, p.Row, ": ", p.Err, p.Remedy)
}
func (p *placed) Unwrap() error { return p.Err }

var errDamaged = errors.New("damaged")

func TestFaultsSayWhatIsKept(t *testing.T) {
	inner := fmt.Errorf("%w: \"a b\" is none of 12,000 nodes", errDamaged)
	const sentence = "damaged: \"..\" is none of N nodes"
	for _, c := range []struct {
		err  error
		want Fault
	}{
		{fmt.Errorf("read: %w", errors.Join(&placed{"/in/graph/x.arrow", 7, "run \"khop x\" and see", inner, "edge"},
			fs.ErrClosed)),
			Fault{"damaged", "graph/x.arrow", "edge", 7, sentence, "run \"..\" and see",
				[]string{"7", `"a b"`, "12,000", `"khop x"`}}},
		{errors.Join(inner), Fault{"damaged", "", "", -1, sentence, "", []string{`"a b"`, "12,000"}}},
		{&placed{"/in/x", -1, "", errors.New("it is cut at /in/y"), ""},
			Fault{"-", "x", "", -1, "it is cut at FILE", "", []string{"1", "DIR/y"}}},
		{errDamaged, Fault{"-", "", "", -1, "damaged", "", nil}},
		{errors.New("process 12 says: invalid character 'x'"), Fault{"-", "", "", -1,
			"process N says: invalid character", "", nil}},
		{errors.New("[3 4, 5] of \"a\", \"b\" and `c d`"), Fault{"-", "", "", -1, "[N ..] of \"..\", .. and \"..\"", "",
			[]string{"3", "4,", "5", `"a"`, `"b"`, "`c d`"}}},
	} {
		if d := Diff(c.want, FaultOf(c.err, "/in")); d != "" {
			t.Errorf("%v: %s", c.err, d)
		}
	}
}

func TestALineMoreOrLessIsNamed(t *testing.T) {
	is, was := []string{"a", "b", "b", "d"}, []string{"b", "a", "c", "d"}
	if d := Diff([]string{"b"}, without(is, was)) + Diff([]string{"c"}, without(was, is)); d != "" {
		t.Error(d)
	}
}

func TestOutcomesAreCountedWithTheirRowsAndValues(t *testing.T) {
	tally := func(last string) string {
		var c Tally
		for _, row := range []int64{9, 3, 5} {
			c.add("x [abcd", row, []string{"5", `"a"`})
		}
		c.Add("fine")
		c.Add("so", 1)
		for _, v := range []string{"one", "two and more", last} {
			c.add("y [efgh", -1, []string{v})
		}
		return c.String()
	}
	const want = "1 x fine\n1 x so [1]\n3 x x [abcd 5 \"a\"] rows 3 to 9\n3 x y [efgh #"
	got, other := tally("three of them"), tally("four of them")
	if got[:len(want)] != want || other[:len(want)] != want || got == other {
		t.Errorf("%q, %q", got, other)
	}
}

func TestKeysOfSentencesStay(t *testing.T) {
	if got := keyOf("damaged"); got != "klju" {
		t.Errorf("%q", got)
	}
}

func TestOptionsWithoutAValueAreLeftOut(t *testing.T) {
	if got := Short("walk length=3 restart=0 a=0.2 metapath= edges=false rules=[]"); got != "walk length=3 a=0.2" {
		t.Errorf("%q", got)
	}
}

func TestLongLinesAreComparedByDigests(t *testing.T) {
	long := strings.Repeat("é", 150)
	brief, other := Brief("short\n"+long+"x\nend"), Brief("short\n"+long+"y\nend")
	want := "short\n" + strings.Repeat("é", 100) + "... sha256 "
	if brief[:len(want)] != want || len(brief) != len(want)+len("0123456789abcdef\nend") || brief == other ||
		Brief(long[:238]) != long[:238] {
		t.Errorf("%q and %q", brief, other)
	}
}
