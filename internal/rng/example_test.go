package rng_test

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/rng"
)

// The picks of two nodes at the first hop of batch 0: of 50 and of 7 in-edges, up to 10 and 3 each.
func Example() {
	batch := rng.BatchKey(42, 0, 0, 0)                        // seed, epoch, instance, batch
	stage := rng.StageKey(batch, 0, rng.Pick, 0)              // a plain graph; hop 0
	fmt.Println(rng.Floyd(nil, rng.Stream(stage, 4), 50, 10)) // node 4
	fmt.Println(rng.Floyd(nil, rng.Stream(stage, 0), 7, 3))   // node 0
	// Output:
	// [5 7 14 15 17 20 39 42 47 49]
	// [1 4 5]
}

// The first positions of the order of a trillion items in epoch 9. No order is stored.
func ExampleNewPermutation() {
	epoch := rng.BatchKey(7, 9, 0, 0)
	order := rng.NewPermutation(rng.Stream(rng.StageKey(epoch, 0, rng.Shuffle, 0), 0), 1<<40)
	fmt.Println(order.At(0), order.At(1), order.At(2))
	// Output:
	// 237782110132 119051283429 930835777397
}
