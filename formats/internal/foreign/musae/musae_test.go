package musae

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

const (
	edges    = "id_1,id_2\n0,1\n2,2\n"
	features = `{"1": [3, 0], "0": [], "2": [1]}`
	targets  = "id,facebook_id,page_name,page_type\n2,9,\"Comma, Inc. " +
		"\"\"q\"\"\",tvshow\n0,7,中国,company\n1,8,b,tvshow\n"
)

// collected writes the files of a collection and returns their folder's place.
func collected(t testing.TB, edges, features, targets string) source.Place {
	return sourcetest.Folder(t, "", map[string]string{"x_edges.csv": edges, "x_features.json": features,
		"x_target.csv": targets})
}

// TestCollectionsAreGraphs: features become dense rows, classes have numbers in the order of their names, or of their
// numbers, and nodes without features get zeros and a note. The archives of Twitch have the site's ids in "id", the
// nodes' in "new_id".
func TestCollectionsAreGraphs(t *testing.T) {
	const two, between = "3 node, 2 classes; ", "node:edge:node 0>1 2>2; undirected"
	const ids = "facebook_id int64[]: [7,8,9]; "
	const names = ids + `class: ["company" "tvshow"]; name: ["中国" "b" "Comma, Inc. \"q\""]; ` + between
	for _, c := range []struct{ edges, features, targets, want, note string }{
		{edges, features, targets, two + "feature float32[4]: [0,0,0,0,1,0,0,1,0,1,0,0]; label int64[]: [0,1,1]; " +
			names, ""},
		{edges, features, "id,name,ml_target\n0,a,10\n1,b,9\n2,c,9\n", two +
			`feature float32[4]: [0,0,0,0,1,0,0,1,0,1,0,0]; label int64[]: [1,0,0]; class: ["9" "10"]; ` +
			`name: ["a" "b" "c"]; ` + between, ""},
		{edges, `{"1": [0]}`, targets, two + "feature float32[1]: [0,1,0]; label int64[]: [0,1,1]; " + names,
			"2 nodes are missing"},
		{"from,to\n0,1\n1,2\n", `{"0": [1], "1": [0], "2": []}`, "id,days,mature,views,partner,new_id\n" +
			"73045350,1459,False,9528,False,2\n61573865,1629,True,3615,False,0\n9,1,False,1,True,1\n", two +
			`feature float32[2]: [0,1,1,0,0,0]; label int64[]: [1,0,0]; id int64[]: [6.1573865e+07,9,7.304535e+07]; ` +
			`days int64[]: [1629,1,1459]; views int64[]: [3615,1,9528]; partner uint8[]: [0,1,0]; ` +
			`class: ["False" "True"]; ` + "node:edge:node 0>1 1>2; undirected", `"mature" is taken for the labels`},
	} {
		sourcetest.Reads(t, Reader, collected(t, c.edges, c.features, c.targets), source.Request{}, c.want, c.note)
	}
}

func TestWhatDenseRowsTakeIsNoted(t *testing.T) {
	nodes := "id,name,ml_target\n"
	for i := range 20 {
		nodes += fmt.Sprintf("%d,x,1\n", i)
	}
	at := collected(t, edges, `{"0": [1], "1": [999999]}`, nodes)
	g, err := Read(context.Background(), at, "x", &source.Request{})
	expect.OK(t, err)
	defer g.Close()
	notes := source.Text(g.Notes)
	for _, want := range []string{"2 entries, about 24 B, are stored as dense rows: 80.0 MB", "FeatureDType"} {
		expect.That(t, strings.Contains(notes, want), "%q is not in %q", want, notes)
	}
}

func TestBadFilesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name                     string
		edges, features, targets string
		file, says               string
		row                      int64
	}{
		{"edge beyond the table", "id_1,id_2\n0,3\n", features, targets, "x_edges.csv", "id 3 is not below the 3 nodes",
			2},
		{"ragged edge", "id_1,id_2\n0,1\n0,1,2\n", features, targets, "x_edges.csv", "3 fields", 3},
		{"no object", edges, "[1]", targets, "x_features.json", "begin with {", -1},
		{"cut short", edges, `{"0": [1`, targets, "x_features.json", "", -1},
		{"ends in the middle", edges, `{"0": [1]`, targets, "x_features.json", "", -1},
		{"node beyond the table", edges, `{"3": [1]}`, targets, "x_features.json", "3 nodes", -1},
		{"node that is none", edges, `{"a": [1]}`, targets, "x_features.json", "not a node number", -1},
		{"node twice", edges, `{"0": [1], "0": [2]}`, targets, "x_features.json", "already", -1},
		{"feature negative", edges, `{"0": [1, -1]}`, targets, "x_features.json", "entry 1: feature -1", -1},
		{"feature beyond reason", edges, `{"0": [99999999]}`, targets, "x_features.json", "feature 99999999", -1},
		{"feature that is none", edges, `{"0": ["x"]}`, targets, "x_features.json", "string", -1},
		{"text after the object", edges, features + "{}", targets, "x_features.json", "follows", -1},
		{"a byte order mark within", edges, "{\"0\": [1],\n\xef\xbb\xbf\"1\": [2]}", targets, "x_features.json",
			"U+FEFF", 2},
		{"a byte order mark within the table", edges, features, targets + "\xef\xbb\xbf", "x_target.csv", "U+FEFF", 5},
		{"header", edges, features, "a,b\n1,2\n", "x_target.csv", "columns are", 1},
		{"ragged row", edges, features, targets + "3,4\n", "x_target.csv", "fields", 5},
		{"bad quotes", edges, features, targets + "3,4,a\"b,c\n", "x_target.csv", "quote", 5},
		{"quotes that do not end", edges, features, targets + "\"", "x_target.csv", "quote", 5},
		{"hole among the nodes", edges, features, targets + "4,4,a,b\n", "x_target.csv", "node 4, but there are 4 rows",
			5},
		{"node twice in the table", edges, features, targets + "1,4,a,b\n", "x_target.csv", "a row already, at 4", 5},
		{"negative node in the table", edges, features, targets + "-1,4,a,b\n", "x_target.csv", "-1", 5},
		{"empty table", edges, features, "", "x_target.csv", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := Read(context.Background(), collected(t, c.edges, c.features, c.targets), "x", &source.Request{})
			if err == nil {
				g.Close()
			}
			var e *formats.Error
			expect.That(t, errors.As(err, &e) && strings.HasSuffix(e.Path, c.file) && e.Row == c.row &&
				strings.Contains(err.Error(), c.says), "got %v; want %s, row %d, saying %q", err, c.file, c.row, c.says)
		})
	}
}

// FuzzRead: no collection panics, and an accepted one is consistent.
func FuzzRead(f *testing.F) {
	f.Add(edges, features, targets)
	f.Add("id_1,id_2\n", "{}", "id,name,ml_target\n0,a,1\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, edges, features, targets string) {
		sourcetest.SurvivesAt(t, Reader, dir, "collection", collected(t, edges, features, targets))
	})
}

func TestReadingACollectionStops(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	_, err := readTarget(ctx, collected(t, edges, features, targets).In("x_target.csv"), nil)
	expect.Is(t, err, stop, "reading classes after the context ended")
	at := collected(t, edges, features, targets).In("x_features.json")
	expect.Is(t, addFeatures(ctx, source.Plain(), at, nil), stop, "reading features after the context ended")
}

// TestWhatComesOfAnyCollection: see sourcetest.Outcomes.
func TestWhatComesOfAnyCollection(t *testing.T) {
	named := func(edges, features, targets string) map[string]string {
		return map[string]string{"x_edges.csv": edges, "x_features.json": features, "x_target.csv": targets}
	}
	var e, f, n strings.Builder
	e.WriteString("id_1,id_2\n")
	n.WriteString("id,name,ml_target\n")
	f.WriteString("{")
	for i := range 6000 {
		fmt.Fprintf(&e, "%d,%d\n", i, i*7%6000)
		fmt.Fprintf(&n, "%d,n%d,%d\n", i, i, i%5)
		fmt.Fprintf(&f, "%s\"%d\": [%d, %d]", map[bool]string{true: ", "}[i > 0], i, i%9, i%4+10)
	}
	sourcetest.Outcomes(t, sourcetest.Case{Name: "pages", Reader: Reader, Lines: true,
		Files: named(edges, features, targets)},
		sourcetest.Case{Name: "Twitch", Reader: Reader, Files: named("from,to\n0,1\n1,2\n",
			`{"0": [1], "1": [0], "2": []}`, "id,days,mature,views,partner,new_id\n73045350,1459,False,9528,False,2\n"+
				"61573865,1629,True,3615,False,0\n9,1,False,1,True,1\n"), Keep: []string{"x_edges.csv"}},
		sourcetest.Case{Name: "numbers", Reader: Reader, Files: named(edges, `{"1": [0]}`,
			"id,name,ml_target\n0,a,10\n1,b,9\n2,c,9\n")}.Whole(),
		sourcetest.Case{Name: "large", Reader: Reader, Files: named(e.String(), f.String()+"}", n.String())}.Whole())
}

var _ source.Reader = Reader
