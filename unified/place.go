package unified

// Place returns where an operation on some operands runs: Device (on a CUDA device) or Host (on the CPU). The rule is
// PyTorch-Direct's (Min et al., arXiv:2101.07956, 2021). For operations with a unified operand (placement Pinned) it
// says:
//
//	other operands                             runs on
//	none                                       CUDA
//	at least one in CUDA memory                CUDA
//	scalars in host memory only                CUDA
//	an array in host memory, none in CUDA's    CPU
//
// A scalar is a tensor of one element. Without a unified operand an operation runs on CUDA if an operand is there, else
// on the CPU. Place ignores zero tensors.
func Place(operands ...Tensor) Placement {
	unified, array := false, false
	for _, t := range operands {
		switch {
		case !t.Valid():
		case t.placement == Device:
			return Device
		case t.placement == Pinned:
			unified = true
		case int64(len(t.data)) != t.dtype.Size():
			array = true
		}
	}
	if unified && !array {
		return Device
	}
	return Host
}
