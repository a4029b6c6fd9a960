//go:build cuda && cgo && linux && (amd64 || arm64)

package device

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// What the table leads to is settled when a process starts, so each test here runs this binary again with another
// driver.

// TestMain prints what the package knows instead of testing, in the process that report starts.
func TestMain(m *testing.M) {
	if os.Getenv("KHOP_CUDA_TEST_REPORT") == "" {
		os.Exit(m.Run())
	}
	version, err := DriverVersion()
	fmt.Printf("count %d\nversion %d %v %v\nreason %s\n", Count(), version, errors.Is(err, ErrNoDevice), err, Reason())
	_, err = Open(0)
	fmt.Printf("open %v %v\n", errors.Is(err, ErrNoDevice), err)
	// Calls that nothing above would make without a device.
	d := &Device{primary: &primary{}}
	_, err = d.Alloc(1)
	fmt.Println("alloc", err)
	_, err = d.HostAlloc(1)
	fmt.Println("hostalloc", err)
}

// report runs this binary with a driver and returns what it prints.
func report(t *testing.T, driver string) string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "KHOP_CUDA_TEST_REPORT=1", "GORACE=atexit_sleep_ms=0",
		"KHOP_CUDA_DRIVER="+driver)
	out, err := command.CombinedOutput()
	expect.Ensure(t, err == nil, "%v\n%s", err, out)
	return string(out)
}

// compile makes a driver of C source and returns its path.
func compile(t *testing.T, source string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed here") // a machine that only runs the bundle's tests
	}
	path := filepath.Join(t.TempDir(), "driver.so")
	command := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	command.Stdin = strings.NewReader(source)
	out, err := command.CombinedOutput()
	expect.Ensure(t, err == nil, "%v\n%s", err, out)
	return path
}

func reports(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		expect.That(t, strings.Contains(got, w), "it does not say %q:\n%s", w, got)
	}
}

func TestProgramStartsWithoutADriver(t *testing.T) {
	got := report(t, "/nonexistent/libcuda.so")
	reports(t, got, "count 0", "version 0 true", "reason no CUDA driver: /nonexistent/libcuda.so: cannot open",
		"open true no CUDA device",
		"alloc cuda: allocate 1 bytes on cuda:0: CUDA_ERROR (100)",
		"hostalloc cuda: allocate 1 bytes of page-locked host memory: CUDA_ERROR (100)")
}

func TestLibraryThatIsNoDriverIsRefused(t *testing.T) {
	path := compile(t, "int something_else;")
	reports(t, report(t, path), "count 0", "open true", path+": no CUDA driver: it has no function cuInit")
}

const driverNames = `
int cuGetErrorName(int code, const char **name) {
	*name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_OTHER";
	return 0;
}
int cuGetErrorString(int code, const char **text) {
	*text = "system has unsupported display driver / cuda driver combination";
	return 0;
}
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
`

func TestDriverThatDoesNotStartIsNoDevice(t *testing.T) {
	path := compile(t, `int cuInit(unsigned f) { return 803; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }`+driverNames)
	reports(t, report(t, path), "count 0",
		"reason the CUDA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "open true")
}

func TestDriverTooOldIsNamedWithWhatIsNeeded(t *testing.T) {
	path := compile(t, `int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 11040; return 0; }`+driverNames)
	reports(t, report(t, path), "count 0", "version 11040 false",
		"it supports CUDA 11.4, 11.8 is needed (driver 520 or later)", "open true")
}

func TestFunctionThatTheDriverLacksIsNotSupported(t *testing.T) {
	path := compile(t, `int cuInit(unsigned f) { return 0; } int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuCtxGetCurrent(void **c) { *c = 0; return 0; }
int cuCtxPushCurrent_v2(void *c) { return 0; }
int cuCtxPopCurrent_v2(void **c) { return 0; }`+driverNames)
	reports(t, report(t, path), "count 1", "alloc cuda: allocate 1 bytes on cuda:0: CUDA_ERROR_OTHER (801)",
		"hostalloc cuda: allocate 1 bytes of page-locked host memory: CUDA_ERROR_OTHER (801)")
}

func TestBinaryNeedsNoCUDALibrary(t *testing.T) {
	path := expect.Must(os.Executable())(t)
	file := expect.Must(elf.Open(path))(t)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	expect.Ensure(t, err == nil && len(libraries) != 0, "%v, %v", libraries, err)
	for _, l := range libraries {
		expect.That(t, !strings.Contains(l, "cuda") && !strings.Contains(l, "nv"), "the binary is linked to %s", l)
	}
	symbols := expect.Must(file.DynamicSymbols())(t)
	for _, s := range symbols {
		expect.That(t, !strings.HasPrefix(s.Name, "cu") || len(s.Name) <= 3 || s.Name[2] < 'A' || s.Name[2] > 'Z',
			"%s is visible to, or asked of, shared libraries", s.Name)
	}
}
