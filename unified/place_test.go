package unified

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestPlacementRule(t *testing.T) {
	at := func(place Placement, n int64) Tensor {
		return expect.Must(NewPlaced(place, Float32, make([]byte, 64), n))(t)
	}
	unified, onDevice, array, scalar, empty := at(Pinned, 4), at(Device, 4), at(Host, 4), at(Host, 1), at(Host, 0)
	for name, c := range map[string]struct {
		operands []Tensor
		want     Placement
	}{
		"a unified operand alone":                     {[]Tensor{unified}, Device},
		"two unified operands":                        {[]Tensor{unified, unified}, Device},
		"unified and CUDA":                            {[]Tensor{unified, onDevice}, Device},
		"unified, CUDA and a CPU array":               {[]Tensor{array, unified, onDevice}, Device},
		"unified, CUDA and a CPU scalar":              {[]Tensor{unified, scalar, onDevice}, Device},
		"unified and a CPU scalar":                    {[]Tensor{unified, scalar}, Device},
		"unified and CPU scalars":                     {[]Tensor{scalar, unified, scalar}, Device},
		"unified and a CPU array":                     {[]Tensor{unified, array}, Host},
		"unified, a CPU scalar and a CPU array":       {[]Tensor{scalar, array, unified}, Host},
		"unified and an empty CPU array":              {[]Tensor{unified, empty}, Host},
		"a unified scalar":                            {[]Tensor{at(Pinned, 1)}, Device},
		"a unified operand and no tensor":             {[]Tensor{unified, {}}, Device},
		"no operand":                                  {nil, Host},
		"a CPU array alone":                           {[]Tensor{array}, Host},
		"a CPU scalar alone":                          {[]Tensor{scalar}, Host},
		"a CUDA operand alone":                        {[]Tensor{onDevice}, Device},
		"a CUDA operand and a CPU scalar, no unified": {[]Tensor{scalar, onDevice}, Device},
	} {
		if got := Place(c.operands...); got != c.want {
			t.Errorf("%s: runs on %v, want %v", name, got, c.want)
		}
	}
}
