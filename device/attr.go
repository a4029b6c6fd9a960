package device

// Attr is a device attribute, a CUdevice_attribute.
type Attr int

// The attributes that khop reads.
const (
	attrMultiprocessors            Attr = 16
	AttrIntegrated                 Attr = 18 // 1: the device shares the host's memory
	attrPCIBus                     Attr = 33
	attrPCIDevice                  Attr = 34
	AttrUnifiedAddressing          Attr = 41
	attrPCIDomain                  Attr = 50
	attrComputeMajor               Attr = 75
	attrComputeMinor               Attr = 76
	AttrPageableAccess             Attr = 88  // pageable host memory is coherently accessible (HMM or hardware)
	AttrHostPointerForRegistered   Attr = 91  // a kernel may use the host's address of registered memory
	AttrHostRegister               Attr = 99  // registering host memory is supported
	AttrPageableUsesHostPageTables Attr = 100 // pageable access goes through the host's page tables (hardware)
	AttrReadOnlyRegister           Attr = 113 // read-only mappings may be registered as such
	attrMPS                        Attr = 133 // 1: contexts are shared by MPS; CUDA 12.5 and later tell
)
