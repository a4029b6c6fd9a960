package convert

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestColumnsNameThoseOfATableOfEdges: as of an edge list, in one task and in several.
func TestColumnsNameThoseOfATableOfEdges(t *testing.T) {
	dir := t.TempDir()
	src, mapping := filepath.Join(dir, "e.csv"), filepath.Join(dir, "m.yaml")
	expect.OK(t, os.WriteFile(src, []byte("who,what,w,extra\na,b,0.5,7\nb,c,2,8\n"), 0o600),
		os.WriteFile(mapping, []byte("edges: {knows: {file: e.csv, src: who, dst: what}}\n"), 0o600))
	for columns, want := range map[string]string{
		"src,dst,weight,-": "node edge node weight", "dst,src,w,more": "node edge node w more",
		"src:user,dst:item,-,time": "user edge item time",
	} {
		dst := filepath.Join(t.TempDir(), "data")
		opt := Options{From: "tables", Columns: strings.Split(columns, ",")}
		expect.Must(Run(context.Background(), src, dst, opt))(t)
		ds := expect.Must(formats.Open(dst))(t)
		s := ds.Graph().Schema()
		said := []string{s.Nodes[s.Edges[0].Src].Name, s.Edges[0].Relation, s.Nodes[s.Edges[0].Dst].Name}
		for _, c := range s.EdgeColumns {
			said = append(said, c.Name)
		}
		expect.Same(t, strings.Join(said, " "), want)
		expect.OK(t, ds.Close())
	}
	for columns, says := range map[string]string{
		"src,dst":             `Columns names 2 of 4 columns, "who", "what", "w", "extra": name each; - leaves one out`,
		"src,a,b,c":           "Columns does not name src and dst",
		"src,dst,w:int8,-":    `Columns names the type "int8" of "w": the columns of a table have types`,
		"src:user,dst,w,-":    "Columns names the type of nodes at one end only",
		"src,dst,w,w":         `Columns names "w" twice`,
		"src,dst,weight,- ,-": "Columns names 5 of 4 columns",
	} {
		_, err := Run(context.Background(), src, filepath.Join(dir, "no"),
			Options{From: "tables", Columns: strings.Split(columns, ",")})
		expect.That(t, err != nil && strings.Contains(err.Error(), says), "%s: %v", columns, err)
	}
	_, err := Run(context.Background(), mapping, filepath.Join(dir, "no"), Options{Columns: []string{"src", "dst"}})
	expect.That(t, err != nil && strings.Contains(err.Error(), "Columns is for one table of edges"), "%v", err)
}
