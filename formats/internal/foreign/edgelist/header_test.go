package edgelist

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// notes spells out the notes of a graph.
func notes(g *source.Graph) string {
	var list []string
	for _, n := range g.Notes {
		list = append(list, fmt.Sprintf("%s %d %s: %s", n.Change, n.Count, n.Name, n.Text))
	}
	return strings.Join(list, "\n")
}

// TestFirstLineIsNoEdgeInSilence reads texts whose first line is names, or may be, and says which.
func TestFirstLineIsNoEdgeInSilence(t *testing.T) {
	for _, c := range []struct {
		text   string
		opt    Options
		edges  int64
		change string // of the note on the first line; "": there is none
	}{
		{"user_id,item_id\na,b\nb,c\nc,a\n", Options{IDs: Names}, 3, source.Guessed},
		{"user_id,item_id\na,b\nb,c\nc,a\n", Options{IDs: Names, Columns: []string{"src", "dst"}}, 3, source.Guessed},
		{"user_id,item_id\na,b\nb,c\nc,a\n", Options{IDs: Names, Header: HeaderYes}, 3, ""},
		{"user_id,item_id\na,b\nb,c\nc,a\n", Options{IDs: Names, Header: HeaderNo}, 4, ""},
		{"userId,movieId\na,b\nb,c\nc,a\n", Options{IDs: Names}, 3, source.Guessed},
		{"user,item,stars\nann,book,5\nbob,book,4.5\n", Options{IDs: Names}, 2, source.Said},
		{"user,item,stars\nann,book,5\nbob,book,NULL\n", Options{IDs: Names}, 2, source.Said},
		{"who,whom\nann,bob\nbob,cid\n", Options{IDs: Names}, 3, source.Said},
		{"one two\n1 2\n2 3\n", Options{}, 2, source.Said},
		{"src,dst\na,b\nb,c\n", Options{IDs: Names}, 2, ""},
		{"u v\nv w\nw u\n", Options{IDs: Names}, 2, source.Guessed},
		{"src,dst\n1,2\n2,3\n", Options{IDs: Names, Header: HeaderNo}, 3, ""},
		{"a b\nb c\nc a\n", Options{IDs: Names}, 3, ""},
		{"1 2\n2 3\n", Options{}, 2, ""},
		{"1 2\n2 3\n", Options{Header: HeaderYes}, 1, ""},
	} {
		g := expect.Must(Read(context.Background(), local(t, "e.csv", []byte(c.text)), c.opt))(t)
		change := ""
		for _, n := range g.Notes {
			if strings.HasPrefix(n.Text, "the first line") {
				change = n.Change
			}
		}
		expect.That(t, g.Edges.Count == c.edges && change == c.change, "%q, %+v: %d edges, %q; want %d, %q\n%s",
			c.text, c.opt, g.Edges.Count, change, c.edges, c.change, notes(g))
		expect.OK(t, g.Close())
	}
}

// TestEndsOfTwoKindsAreDoubted reads ids of two kinds of nodes, which share numbers.
func TestEndsOfTwoKindsAreDoubted(t *testing.T) {
	for text, hint := range map[string]string{
		"userId,movieId\n1,2\n2,1\n":            "src:user,dst:movie",
		"user_id item_id stars\n1 2 3\n2 1 3\n": "Columns src:user,dst:item,stars",
		"user,item\n1,2\n2,1\n":                 "src:user,dst:item",
		"FromNodeId\tToNodeId\n1\t2\n2\t1\n":    "",
		"src_id,dst_id\n1,2\n2,1\n":             "",
		"node_id_1,node_id_2\n1,2\n2,1\n":       "",
		"person1id,person2id\n1,2\n2,1\n":       "",
		"u,i\n1,2\n2,1\n":                       "",
	} {
		g := expect.Must(Read(context.Background(), local(t, "e.csv", []byte(text)), Options{}))(t)
		said := notes(g)
		expect.That(t, strings.Contains(said, "share one space") == (hint != "") && strings.Contains(said, hint),
			"%q: %s; want %q", text, said, hint)
		expect.OK(t, g.Close())
	}
}

// TestNoFieldVanishes has fields that are not stored named with their number.
func TestNoFieldVanishes(t *testing.T) {
	for _, c := range []struct {
		text string
		opt  Options
		note string
	}{
		{"0 1 5 7\n1 2 5 7\n", Options{Columns: []string{"src", "dst", "w"}}, "left out 1 edges: Columns names 3 of 4"},
		{"0 1 5 7\n1 2 5 7\n", Options{Columns: []string{"src", "dst"}}, "left out 2 edges: Columns names 2 of 4"},
		{"src,dst,a:b\n0,1,2\n1,2,3\n", Options{}, `renamed 1 a_b: field 3, "a:b", is stored as "a_b"`},
		{"src,dst,w,w\n0,1,2,3\n1,2,3,4\n", Options{}, `renamed 1 w_: field 4, "w", is stored as "w_"`},
		{"src,dst,w\n0,1,2\n1,2,\\N\n", Options{}, `left out 2 w: field "w" is not stored`},
		{"src,dst,w\n0,1,2\n1,2,\\N\n", Options{}, `Null \N takes it for a missing value`},
		{"0 1 5 7\n1 2 5 7\n", Options{Columns: []string{"src", "dst", "w", "-"}}, ""},
	} {
		g := expect.Must(Read(context.Background(), local(t, "e.csv", []byte(c.text)), c.opt))(t)
		if said := notes(g); !strings.Contains(said, c.note) || c.note == "" && said != "" {
			t.Errorf("%q, %+v: %s; want %q", c.text, c.opt, said, c.note)
		}
		expect.OK(t, g.Close())
	}
}

// TestMissingFieldsAreMissing reads fields that a person says are missing.
func TestMissingFieldsAreMissing(t *testing.T) {
	for _, c := range []struct {
		text string
		opt  Options
		want string
	}{
		{"src,dst,w\n0,1,2\n1,2,NULL\n2,0,\\N\n", Options{}, "3: 0>1 1>2 2>0; w float64 2 NaN NaN"},
		{"src,dst,time\n0,1,2\n1,2,NULL\n", Options{}, "3: 0>1 1>2; time int64 2 -9223372036854775808"},
		{"src,dst,time\n0,1,2\n1,2,NULL\n2,0,2.5\n", Options{}, "3: 0>1 1>2 2>0; time float64 2 NaN 2.5"},
		{"src,dst,w\n0,1,2\n1,2,NULL\n", Options{Columns: []string{"src", "dst", "w:float32"}},
			"3: 0>1 1>2; w float32 2 NaN"},
	} {
		c.opt.Null = []string{"NULL", `\N`}
		g := expect.Must(Read(context.Background(), local(t, "e.csv", []byte(c.text)), c.opt))(t)
		got := describe(t, g)
		expect.That(t, got == c.want && notes(g) == "", "%q: %s, %s; want %s", c.text, got, notes(g), c.want)
		expect.OK(t, g.Close())
	}
	opt := Options{Columns: []string{"src", "dst", "w:int8"}, Null: []string{"NULL"}}
	_, err := Read(context.Background(), local(t, "e.csv", []byte("0,1,2\n1,2,NULL\n")), opt)
	expect.That(t, err != nil && strings.Contains(err.Error(), `NULL is missing, which int8 does not hold`),
		"a missing whole number: %v", err)
}
