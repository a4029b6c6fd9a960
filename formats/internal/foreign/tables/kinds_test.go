package tables

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/internal/expect"
)

// What a manifest says of elements: the deviation of all rows (not of a sample), quartiles between values as NumPy's,
// and categories with the most frequent first, of equal ones that which appears first.
func TestElementsAreDescribedByWhatTheyHold(t *testing.T) {
	numbers := &meant{f: &columnar.Field{Name: "price"}, kind: numerical, missing: 2}
	for _, x := range []float64{8, 1, 4, 2} {
		numbers.moments.add(x)
		numbers.values = append(numbers.values, x)
	}
	kinds := &meant{f: &columnar.Field{Name: "kind"}, kind: categorical, counts: []int64{2, 5, 1, 5}}
	kinds.number()
	expect.Same(t, string(describe([]*meant{numbers, kinds})),
		`[{"name":"price","kind":"numerical","missing":2,"mean":3.75,"std":2.680951323690902,`+
			`"quantiles":[1,1.75,3,5,8]},{"name":"kind","kind":"categorical","missing":0,"counts":[5,5,2,1]}]`)
	expect.Same(t, kinds.codes, []int32{2, 0, 3, 1})
}
