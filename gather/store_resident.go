package gather

import (
	"context"
	"errors"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Resident copies a tensor in host memory (a mapped file) into memory, on huge pages where it is large enough to
// profit, by all cores. memory says how that is taken and counted; progress, unless it is nil, is told how many bytes
// are done, by one goroutine at a time. The copy has the same dtype, shape and contents. The caller closes the region,
// after which the copy must not be used; the original is not needed any more.
//
// Cancelling returns context.Cause and leaves no memory. A file that was cut short is pinned.ErrFault.
func Resident(ctx context.Context, t unified.Tensor, memory pinned.Options, progress func(done int64)) (unified.Tensor,
	*pinned.Region, error) {
	region, err := pinned.Allocate(int64(len(t.Bytes())), memory)
	if err != nil {
		return unified.Tensor{}, nil, err
	}
	if err := pinned.Copy(ctx, region.Bytes(), t.Bytes(), progress); err != nil {
		return unified.Tensor{}, nil, errors.Join(err, region.Close())
	}
	c, err := unified.New(t.DType(), region.Bytes(), t.Shape()...)
	if err != nil {
		return unified.Tensor{}, nil, errors.Join(err, region.Close())
	}
	return c, region, nil
}
