package unified_test

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/unified"
)

// A tensor of the host becomes a unified one by two lines: opening the device, and To. With "cpu" the same program runs
// where there is no device.
func ExampleTensor_To() {
	rows := []float32{0, 1, 2, 3, 4, 5}

	device, err := unified.OpenDevice("cpu") // "cuda:0" where there is one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer device.Close()
	// was: features := unified.FromSlice(rows)
	features, err := unified.FromSlice(rows).To(context.Background(), device.Unified())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer features.Close()

	last, _ := features.Rows(4, 6) // everything else stays as it was
	v, _ := unified.View[float32](last)
	fmt.Println(v, unified.Place(features.Tensor))
	// Output: [4 5] host
}
