//go:build !(cuda && cgo && linux && (amd64 || arm64))

package device

// hasDriver says whether the build has CUDA.
const hasDriver = false

var drv driver = none{}

func unpack([]byte, string) ([]byte, error) { return nil, errNoKernels }

// none is the driver of a build without CUDA. The methods of the embedded nil interface are never reached: there is no
// device to call them on.
type none struct{ driver }

func (none) missing() string {
	return "this build has no CUDA (it was made without -tags cuda, without cgo, or not for Linux on amd64 or arm64)"
}
func (none) version() (int, result) { return 0, codeNoDevice }
func (none) count() (int, result)   { return 0, codeNoDevice }
func (none) describe(result) (string, string) {
	return "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"
}
