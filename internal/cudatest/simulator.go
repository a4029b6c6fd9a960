//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include "between.h"

// The library is the one that package cuda has loaded: dlopen of a loaded file gives the same one.
static void *library;
static int found(const char *path) {
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	return library && dlsym(library, "cudasim_config");
}
#define SYMBOL(type, name) ((type)dlsym(library, name))
static const char *config(const char *settings) { return SYMBOL(const char *(*)(const char *),
	"cudasim_config")(settings); }
static const char *settings(void) { return SYMBOL(const char *(*)(void), "cudasim_settings")(); }
static void defaults(void) { SYMBOL(void (*)(void), "cudasim_defaults")(); }
static void fail(const char *name, int nth, int code) { SYMBOL(void (*)(const char *, int, int), "cudasim_fail")(name,
	nth, code); }
static int findings(void) { return SYMBOL(int (*)(void), "cudasim_findings")(); }
static const char *finding(int i) { return SYMBOL(const char *(*)(int), "cudasim_finding")(i); }
static void reset(void) { SYMBOL(void (*)(void), "cudasim_reset")(); }
static int stats(const char *kernel, uint64_t *out) { return SYMBOL(int (*)(const char *, uint64_t *),
	"cudasim_stats")(kernel, out); }
static int traffic(unsigned long long at, uint64_t *out) { return SYMBOL(int (*)(unsigned long long, uint64_t *),
	"cudasim_traffic")(at, out); }
static void reset_stats(void) { SYMBOL(void (*)(void), "cudasim_reset_stats")(); }
static void live(uint64_t *out) { SYMBOL(void (*)(uint64_t *), "cudasim_live")(out); }
static const char *kernels(void) { return SYMBOL(const char *(*)(void), "cudasim_kernels")(); }
static uint64_t schedule(void) { return SYMBOL(uint64_t (*)(void), "cudasim_schedule")(); }
*/
import "C"

import (
	"os"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/device"
)

// simulated looks for the simulator, once, after package device has had its driver loaded. Any other driver, and a
// simulator that poses as one, gets between.c in front.
var simulated = sync.OnceValue(func() bool {
	device.Count()
	found := find()
	if !found {
		C.between_install()
	}
	return found
})

func find() bool {
	path := os.Getenv("KHOP_CUDA_DRIVER")
	if path == "" || os.Getenv("KHOP_CUDASIM_POSE") != "" {
		return false
	}
	// For go test, which repeats an old result unless it knows that something changed.
	os.Getenv("KHOP_CUDASIM")
	_, _ = os.Stat(path)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return C.found(name) != 0
}

func withString(s string, f func(*C.char)) {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	f(c)
}

// setConfig changes settings and returns what is wrong with them.
func setConfig(settings string) (wrong string) {
	withString(settings, func(s *C.char) { wrong = C.GoString(C.config(s)) })
	return wrong
}

func allSettings() string { return C.GoString(C.settings()) }

func restoreDefaults() { C.defaults() }

func failCall(name string, nth, code int) {
	withString(name, func(s *C.char) {
		if simulated() {
			C.fail(s, C.int(nth), C.int(code))
		} else {
			C.between_fail(s, C.int(nth), C.int(code))
		}
	})
}

// takeFindings returns what was found, with source lines, and forgets it.
func takeFindings() []string {
	if !simulated() {
		C.between_reset()
		return nil
	}
	var all []string
	for i := range int(C.findings()) {
		all = append(all, C.GoString(C.finding(C.int(i))))
	}
	C.reset()
	return all
}

type counts struct {
	launches, threads uint64
	traffic           [2][2]Traffic // space; reads, writes
	fresh             uint64
	longest           [2]uint64 // by space
}

func countsOf(kernel string) (c counts, known bool) {
	withString(kernel, func(s *C.char) { known = C.stats(s, (*C.uint64_t)(unsafe.Pointer(&c))) == 0 })
	return c, known
}

func trafficAt(a device.Address) (rw [2]Traffic, known bool) {
	known = C.traffic(C.ulonglong(a), (*C.uint64_t)(unsafe.Pointer(&rw))) == 0
	return rw, known
}

func kernelNames() string { return C.GoString(C.kernels()) }

func launchesOf(kernel string) (n uint64) {
	if simulated() {
		c, _ := countsOf(kernel)
		return c.launches
	}
	withString(kernel, func(s *C.char) { n = uint64(C.between_launches(s)) })
	return n
}

func forgetCounts() {
	if simulated() {
		C.reset_stats()
	} else {
		C.between_reset_launches()
	}
}

// pretend makes a real device one with less memory (0: what it has) and other attributes.
func pretend(memory uint64, attributes map[int]int) {
	C.between_defaults()
	C.between_memory(C.uint64_t(memory))
	for number, value := range attributes {
		C.between_attribute(C.int(number), C.int(value))
	}
}

func liveNow() (l Live) {
	var n [6]uint64
	if simulated() {
		C.live((*C.uint64_t)(unsafe.Pointer(&n)))
	} else {
		C.between_live((*C.uint64_t)(unsafe.Pointer(&n)))
	}
	return Live{Allocations: int(n[0]), HostRanges: int(n[1]), Streams: int(n[2]), Events: int(n[3]),
		Modules: int(n[4]), Bytes: int64(n[5])}
}

func scheduleNow() uint64 { return uint64(C.schedule()) }
