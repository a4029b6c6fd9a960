//go:build cuda && cgo && linux && (amd64 || arm64)

// The driver's functions are found at run time, so that a binary neither links to nor needs libcuda.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "table_cuda.h"

#define HIDDEN __attribute__((visibility("hidden")))

// Answers in place of a driver (CUDA_ERROR_NO_DEVICE), and in place of a function that it lacks
// (CUDA_ERROR_NOT_SUPPORTED).
static int no_device(void) { return 100; }
static int not_supported(void) { return 801; }

// An address for each function: khop_cuMemAlloc_v2 for cuMemAlloc_v2.
#define SYMBOL(name) HIDDEN void *khop_##name = (void *)no_device;
#include "symbols.h"
#undef SYMBOL

static const struct {
    const char *name;
    void **address;
} table[] = {
#define SYMBOL(name) {#name, &khop_##name},
#include "symbols.h"
#undef SYMBOL
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[512]; // why there is no driver
static int init_code; // what the driver's cuInit answered

static int no_devices(int *count) {
    *count = 0;
    return 0;
}

static void load(void) {
    const char *path = getenv("KHOP_CUDA_DRIVER");
    if (!path || !*path) path = "libcuda.so.1";
    khop_cuDeviceGetCount = (void *)no_devices;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, sizeof why, "%s", dlerror());
        return;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    if (!init) {
        snprintf(why, sizeof why, "%s: no CUDA driver: it has no function cuInit", path);
        return;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *address = dlsym(library, table[i].name);
        *table[i].address = address ? address : (void *)not_supported;
    }
    init_code = init(0);
}

// cuInit always succeeds: gorgonia.org/cu calls it when the program starts and exits the process if it fails.
HIDDEN int cuInit(unsigned flags) {
    (void)flags;
    pthread_once(&once, load);
    return 0;
}

HIDDEN const char *khop_cuda_why(void) {
    pthread_once(&once, load);
    return why;
}

HIDDEN int khop_cuda_init_code(void) {
    pthread_once(&once, load);
    return init_code;
}
