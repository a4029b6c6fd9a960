package option_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
)

// all has an option of each kind.
type all struct {
	Count   int           `default:"4" range:"1,9" id:"n" help:"Count."`
	Share   float64       `default:"0.5" zero:"0" range:",1" help:"Share."`
	Seed    uint64        `default:"0" help:"Seed."`
	Size    int64         `kind:"size" range:"0," help:"Size."`
	Wait    time.Duration `default:"2s" help:"Wait."`
	On      bool          `help:"On."`
	Column  string        `default:"time" zero:"-" empty:"none" help:"Column."`
	Names   []string      `name:"some-names" empty:"none" help:"Names."`
	Fanouts []int         `default:"3" help:"..."`
	PerType map[string][]int
	Ages    []int64 `by:"AgesOf" id:"ages" default:"0" empty:"0" range:"0," help:"Ages."`
	AgesOf  map[string][]int64
	AsOf    *int64 `with:"column" help:"Time."`
	Group   struct {
		Depth int `of:"serve" default:"1" help:"Depth."`
	}
	Own    int `range:"0,"`
	hidden int
}

func TestTagsSayWhatAnOptionIs(t *testing.T) {
	got := ""
	for _, o := range given.Of(&all{hidden: 1}) {
		got += fmt.Sprintf("%s %s %s %s [%s,%s] %s%v\n", o.Name, o.Key(), o.Path, o.Kind, o.Least, o.Most, o.Group,
			o.Doors)
	}
	expect.Same(t, got, `count count Count int [1,9] []
share share Share float [,1] []
seed seed Seed int [,] []
size size Size size [0,] []
wait wait Wait duration [,] []
on on On bool [,] []
column column Column text [,] []
some-names some_names Names list [,] []
fanouts fanouts Fanouts fanouts [,] []
ages ages Ages lists [0,] []
as-of as_of AsOf int [,] []
depth depth Group.Depth int [,] group[serve]
own own Own int [0,] [go]
`)
}

// values are values of JSON, and what becomes of them: the text of the field, or an error.
var values = []struct{ key, value, want, err string }{
	{"count", `9`, "9", ""},
	{"count", `"0x9"`, "9", ""},
	{"count", `10`, "", "Count is 10: must be 1 to 9"},
	{"count", `0`, "", "Count is 0: must be 1 to 9"},
	{"count", `1.5`, "", `Count: "1.5" is not a whole number`},
	{"count", `[1]`, "", "Count: [1]: must be one value"},
	{"share", `1.5`, "", "Share is 1.5: must be at most 1"},
	{"share", `0`, "0", ""},
	{"seed", `18446744073709551615`, "18446744073709551615", ""},
	{"seed", `-1`, "", `Seed: "-1" is not a whole number from 0 to 2^64 - 1`},
	{"size", `"4GB"`, "4000000000", ""},
	{"size", `"much"`, "", `Size: "much" is not a size such as 4GB, 1.5GiB or 500MB`},
	{"size", `-1`, "", "Size is -1: must be 0 or more"},
	{"wait", `1.5`, "1.5s", ""},
	{"wait", `"2m"`, "2m0s", ""},
	{"on", `true`, "true", ""},
	{"on", `"no"`, "false", ""},
	{"on", `3`, "", `On: "3" is neither true nor false`},
	{"column", `"none"`, "", ""},
	{"column", `{"base64": "/w=="}`, "\xff", ""},
	{"column", `7`, "", "Column: 7: must be a text"},
	{"some_names", `["a,b", "c"]`, "[a,b c]", ""},
	{"some_names", `[]`, "[]", ""},
	{"some_names", `"none"`, "[]", ""},
	{"some_names", `[1]`, "", "Names: [1]: must be a list of texts"},
	{"fanouts", `[15, -1]`, "[15 -1]", ""},
	{"fanouts", `5`, "[5]", ""},
	{"fanouts", `{"*": 5, "a=b": [1]}`, "[5]", ""},
	{"fanouts", `{"a": [1, -2]}`, "", `Fanouts["a"][1]: -2: must be a number, 0 for no edge or -1 for all`},
	{"fanouts", `[]`, "", "Fanouts: must be numbers, one a hop, such as 15,10"},
	{"ages", `7`, "[7]", ""},
	{"ages", `[7, 0]`, "[7 0]", ""},
	{"ages", `"7,8"`, "[7 8]", ""},
	{"ages", `0`, "[]", ""},
	{"ages", `{"*": 5, "a": [1, 2]}`, "[5]", ""},
	{"ages", `{"a": [1, -2]}`, "", `Ages["a"][1] is -2: must be 0 or more`},
	{"ages", `{"a": "x"}`, "", `Ages: "x" is not a whole number`},
	{"as_of", `-3`, "-3", ""},
	{"count", `null`, "0", ""},
	{"depth", `2`, "2", ""},
	{"nothing", `2`, "", "nothing is no option"},
}

func TestValuesAreSetOrRefusedWithTheirPlace(t *testing.T) {
	of := given.Of(all{})
	for _, c := range values {
		var a all
		err := given.SetDocument(&a, of, map[string]json.RawMessage{c.key: json.RawMessage(c.value)})
		if c.err != "" {
			var wrong *option.Error
			if !errors.As(err, &wrong) || wrong.Error() != c.err ||
				option.Key(option.Name{Option: wrong.Option}) != c.key {
				t.Errorf("%s %s: %v", c.key, c.value, err)
			}
			continue
		}
		at := reflect.ValueOf(a)
		for _, o := range of {
			if o.Key() == c.key && o.Group == "" {
				at = at.FieldByName(o.Path)
			} else if o.Key() == c.key {
				at = reflect.ValueOf(a.Group.Depth)
			}
		}
		if at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		expect.That(t, err == nil && fmt.Sprint(at) == c.want, "%s %s: %v, %v", c.key, c.value, at, err)
	}
}

func TestErrorsSpeakTheNamesOfADoor(t *testing.T) {
	invalid := errors.New("invalid")
	err := option.Errorf(invalid, all{}, "Names", " and %s: %w", option.NameOf(all{}, "AsOf"), errors.ErrUnsupported)
	of := err.(*option.Error)
	of.Key, of.Part, of.Row = "paper", "times", 1
	expect.Same(t, err.Error(), `invalid: Names["paper"].times[1] and AsOf: unsupported operation`)
	expect.Same(t, of.In(option.Flag), `--some-names["paper"].times[1] and --as-of: unsupported operation`)
	expect.Same(t, of.Said(option.Key), ` and as_of: unsupported operation`)
	expect.That(t, errors.Is(err, invalid) && errors.Is(err, errors.ErrUnsupported), "%v", err)
}

func TestDoorsSpellTheOptionsWithinAnError(t *testing.T) {
	ids := option.Named("AsOf")
	text := option.Textf("%w: a share is missing: say %s, %d", errors.ErrUnsupported, ids, 7)
	err := fmt.Errorf("file: %w; take it by AsOf", option.With(text, option.Textf("take it by %s", ids)))
	expect.Same(t, err.Error(), "file: unsupported operation: a share is missing: say AsOf, 7; take it by AsOf")
	expect.Same(t, option.Spell(errors.Join(err, errors.ErrUnsupported), option.Flag),
		"file: unsupported operation: a share is missing: say --as-of, 7; take it by --as-of\nunsupported operation")
	expect.Same(t, option.Spell(option.Textf("skipped: %w", err), option.Key),
		"skipped: file: unsupported operation: a share is missing: say as_of, 7; take it by as_of")
	expect.That(t, errors.Is(err, errors.ErrUnsupported), "%v", err)
}

func TestApplyTakesDefaultsAndWhatBelongsTogether(t *testing.T) {
	var a all
	of := given.Of(a)
	expect.OK(t, given.Apply(&a, of, given.Values{"on": "true", "column": "t", "as-of": json.RawMessage("5")}))
	expect.That(t, a.Count == 4 && a.Share == 0.5 && a.On && a.Column == "t" && *a.AsOf == 5 && a.Group.Depth == 1 &&
		a.Wait == 2*time.Second && reflect.DeepEqual(a.Fanouts, []int{3}), "%+v", a)
	err := given.Apply(&a, of, given.Values{"column": "none", "as-of": "5"})
	expect.That(t, err != nil && err.Error() == "AsOf is for column, which is none", "%v", err)
	expect.That(t, option.Check(errors.ErrUnsupported, all{Count: 10}) != nil, "10 is out of range")
	expect.Same(t, option.Filled(all{}).Count, 4)
}

func TestDocumentsAndFingerprintsHaveWhatIsSet(t *testing.T) {
	a := all{Count: 2, Names: []string{}, PerType: map[string][]int{"x": {1}}, Fanouts: []int{5}, Wait: time.Minute}
	expect.Same(t, string(expect.Must(json.Marshal(given.Document(a, given.Of(a))))(t)),
		`{"column":"none","count":2,"fanouts":{"*":[5],"x":[1]},"share":0,"some_names":[],"wait":"1m0s"}`)
	expect.Same(t, option.Fingerprint("all", a), "all n=2 wait=1m0s some-names= fanouts=*=5;x=1 ages=0")
	expect.Same(t, option.Fingerprint("all", all{}), "all n=0 ages=0")
	a = all{Ages: []int64{5}, AgesOf: map[string][]int64{"y": {1, 2}, "x": {3}}}
	expect.Same(t, option.Fingerprint("all", a), "all n=0 ages=*=5;x=3;y=1,2")
	expect.Same(t, given.Document(a, given.Of(a))["ages"], any(map[string]any{"*": []int64{5}, "x": []int64{3},
		"y": []int64{1, 2}}))
}

func TestUnionCompletesWhatIsTheSame(t *testing.T) {
	type other struct {
		N    int   `same:"count" default:"7"`
		Size int64 `same:"size"`
	}
	mine := given.Of(other{})
	u := given.Union(mine, given.Of(all{}))
	expect.Same(t, []string{u[0].Name, u[0].Default, u[0].Help, u[1].Name, u[1].Kind}, []string{"count", "4", "Count.",
		"size", "size"})
	expect.Same(t, given.Union(given.Of(all{}), mine)[0].Default, "0") // each has its own
	c := given.Complete(mine, given.Of(all{}))
	expect.Same(t, []string{c[0].Help, c[0].Default, c[0].Most, c[1].Help, c[1].Least}, []string{"Count.", "7", "9",
		"Size.", "0"})
	expect.That(t, mine[0].Help == "", "Complete changed its argument")
	expect.Same(t, len(u), len(given.Of(all{})))
}

// pair is a value that may hold commas.
type pair string

func (p *pair) UnmarshalText(text []byte) error {
	if *p = pair(text); *p == "" {
		return errors.New("a pair is missing")
	}
	return nil
}

func TestValuesOfWhichEachIsSaidAloneStayWhole(t *testing.T) {
	var a struct {
		Pairs []pair `kind:"each" help:"Pairs."`
	}
	of := given.Of(a)
	expect.OK(t, given.Apply(&a, of, given.Values{"pairs": []string{"a,b", "c"}}))
	expect.Same(t, a.Pairs, []pair{"a,b", "c"})
	err := given.Apply(&a, of, given.Values{"pairs": []string{""}})
	expect.That(t, err != nil && err.Error() == "Pairs: a pair is missing", "%v", err)
}

// counted counts how often it is asked for its text.
type counted struct{ times int }

func (c *counted) Error() string { c.times++; return "the first" }

// TestATextOfManyIsMadeOnce: who refuses one thing after the other wraps each error in the next, and a door spells all
// of them in time that grows with their number alone.
func TestATextOfManyIsMadeOnce(t *testing.T) {
	first := &counted{}
	var err error = option.Textf("%w; by %s", first, option.Named("MaxMemory"))
	const many = 40
	for i := range many {
		err = option.Textf("%w; %w", err, option.Textf("thing %d: leave out %s", i, option.Named("Strict")))
		if i%2 == 0 {
			err = fmt.Errorf("again: %w", err)
		}
	}
	text := option.Spell(err, option.Flag)
	expect.That(t, strings.Contains(text, "thing 39: leave out --strict") && strings.Contains(text, "by --max-memory"),
		"%s", text)
	expect.That(t, first.times <= 4*many, "the first was asked %d times", first.times)
}

func TestFanoutsAreReadByHopAndType(t *testing.T) {
	for _, c := range []struct {
		text    string
		all     []int
		perType map[string][]int
	}{
		{"15,10,5", []int{15, 10, 5}, nil},
		{" 15 , -1 ", []int{15, -1}, nil},
		{"0", []int{0}, nil},
		{"2147483647", []int{1<<31 - 1}, nil},
		{"cites=15,10;writes=5,5", nil, map[string][]int{"cites": {15, 10}, "writes": {5, 5}}},
		{"a:writes:b=2;*=5,5", []int{5, 5}, map[string][]int{"a:writes:b": {2}}},
	} {
		all, perType, err := parseFanouts(c.text)
		expect.That(t, err == nil && slices.Equal(all, c.all) && reflect.DeepEqual(perType, c.perType), "%q: %v %v %v",
			c.text, all, perType, err)
	}
	for _, text := range []string{"", "a", "1,,2", "-2", "1.5", "2147483648", "99999999999", "=5", "cites=",
		"cites=5;cites=6", "cites=5;;", "*=1;*=2", "1;2"} {
		all, perType, err := parseFanouts(text)
		expect.That(t, err != nil, "%q: %v %v, want an error", text, all, perType)
	}
}

func parseFanouts(text string) (all []int, perType map[string][]int, err error) {
	lists, err := given.ParseLists(&option.Option{Kind: "fanouts"}, reflect.TypeFor[[]int](), text)
	for name, list := range lists {
		if values := list.Interface().([]int); name == "*" {
			all = values
		} else {
			if perType == nil {
				perType = map[string][]int{}
			}
			perType[name] = values
		}
	}
	return all, perType, err
}
