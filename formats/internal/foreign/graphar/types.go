package graphar

import (
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/unified"
)

// types are the types of properties.
var types = map[string]columnar.Field{
	"bool":      {DType: unified.Uint8, Boolean: true},
	"int32":     {DType: unified.Int32},
	"int64":     {DType: unified.Int64},
	"float":     {DType: unified.Float32},
	"double":    {DType: unified.Float64},
	"string":    {Text: true},
	"date":      {DType: unified.Int32, Unit: "d"},
	"timestamp": {DType: unified.Int64, Unit: "ms"},
	"time":      {DType: unified.Int32, Unit: "ms"},
}

// field returns the column of a property; known is false of types of the user's.
func (p *property) field() (f columnar.Field, known bool) {
	name, list := strings.CutPrefix(strings.ToLower(strings.TrimSpace(p.Type)), "list<")
	f, known = types[strings.TrimSpace(strings.TrimSuffix(name, ">"))]
	f.Name, f.Width, f.Gaps = p.Name, 1, p.Nullable == nil && !p.Primary || p.Nullable != nil && *p.Nullable
	if list = list || p.Cardinality == "list" || p.Cardinality == "set"; list {
		f.List, f.Width = true, 0
	}
	return f, known
}
