package graphar

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// Properties are stored by their types. Whole numbers and truths of which some are missing are float64, whether the
// file states how many are missing or not.
func TestPropertiesOfParquetAreStoredByTheirTypes(t *testing.T) {
	at := expect.Must(source.OpenTree("testdata/typed", nil))(t).At("g.graph.yml")
	sourcetest.Reads(t, Reader, at, source.Request{}, "3 v; yes float64[]: [NaN,NaN,0]; i int32[]: [1,2,3]; "+
		"few float64[]: [NaN,1.152921504606847e+18,NaN]; narrow int32[]: [7,8,9]; f float32[]: [0.5,NaN,1.5]; "+
		"d float64[]: [0.1,0.2,0.3]; day int64[]d: [11356,-9.223372036854776e+18,-1]; "+
		"at int64[]us: [1,-9.223372036854776e+18,-1]; l float32[2]: [1,2,3,4,5,6]; "+
		`s: ["a" "" "c"]; large: ["x" "y" "z"]; edge w float64[]; edge n float64[]; v:e:v 2>0:0.5:NaN 0>1:NaN:4`,
		`"yes" is float64: 2 numbers are missing`, `"few" is float64: 2 numbers are missing`,
		`"few": 1 number is beyond 2^53, and may be rounded`, `"s": 1 text is missing, and empty`,
		`"n" is float64: 1 number is missing`, "words (lists of text), uneven (lists of several lengths), "+
			"ragged (lists of several lengths)")
}

// A file that has other types than the YAML is refused; one whose numbers the type holds is not.
func TestTypesOfFilesMustBeThoseOfTheYAML(t *testing.T) {
	for _, c := range []struct{ property, is, other, says string }{
		{"narrow", "int64", "int32", ""},
		{"i", "int32", "int64", ""},
		{"f", "float", "double", ""},
		{"day", "date", "time", "holds dates, and not times"},
		{"i", "int32", "float", "holds int32, and not float32"},
		{"few", "int64", "int32", "holds int64, and not int32"},
		{"d", "double", "float", "holds float64, and not float32"},
		{"d", "double", "int64", "holds float64, and not int64"},
		{"yes", "bool", "int32", "holds booleans, and not int32"},
		{"i", "int32", "bool", "holds int32, and not booleans"},
		{"s", "string", "int64", "holds text, and not int64"},
		{"i", "int32", "string", "holds int32, and not text"},
		{"day", "date", "int32", "holds dates, and not int32"},
		{"i", "int32", "date", "holds int32, and not dates"},
		{"at", "timestamp", "date", "holds times, and not dates"},
		{"at", "timestamp", "time", ""},
		{"l", "list<float>", "float", "holds lists of 2 float32, and not float32"},
		{"i", "int32", "list<int32>", "holds int32, and not lists of int32"},
		{"l", "list<float>", "list<int64>", "holds lists of 2 float32, and not lists of int64"},
	} {
		files := sourcetest.Within(t, "testdata/typed")
		was := "{name: " + c.property + ", data_type: " + c.is + "}"
		expect.Ensure(t, strings.Contains(files["v.yml"], was), "no %s", was)
		files["v.yml"] = strings.Replace(files["v.yml"], was, "{name: "+c.property+", data_type: "+c.other+"}", 1)
		at := sourcetest.Folder(t, "g", files)
		g, err := Reader.Read(context.Background(), at.In("g.graph.yml"), &source.Request{})
		if c.says == "" {
			expect.OK(t, err)
			expect.OK(t, g.Close())
			continue
		}
		var e *formats.Error
		expect.That(t, errors.As(err, &e) && e.Path == filepath.Join(at.Path(), "v/all/chunk0") &&
			e.Column == c.property && strings.Contains(err.Error(), c.says), "%s: %v, want %s", c.property, err, c.says)
	}
}

// A property that must have values is refused where one is missing, with file and row.
func TestMissingValuesAreRefusedWhereNoneMayBe(t *testing.T) {
	files := sourcetest.Within(t, "testdata/typed")
	files["v.yml"] = strings.Replace(files["v.yml"], "{name: yes, ", "{name: yes, is_nullable: false, ", 1)
	at := sourcetest.Folder(t, "g", files)
	g := expect.Must(Reader.Read(context.Background(), at.In("g.graph.yml"), &source.Request{}))(t)
	var e *formats.Error
	err := readAll(g)
	expect.That(t, errors.As(err, &e) && e.Path == filepath.Join(at.Path(), "v/all/chunk0") && e.Column == "yes" &&
		e.Row == 0 && strings.Contains(err.Error(), "the number is missing, where there must be one"), "%v", err)
	expect.OK(t, g.Close())
}
