package musae

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

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
