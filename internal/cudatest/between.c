//go:build cuda && cgo && linux && (amd64 || arm64)

// Stands between the program and a real driver, so that tests can let calls fail and count what is alive there as well:
// each function of package device's table is replaced by one that counts, and then calls the driver.

#include "between.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#define SYMBOL(name) I_##name,
#include "../../device/symbols.h"
#undef SYMBOL
    FUNCTIONS
};
static const char *const names[] = {
#define SYMBOL(name) #name,
#include "../../device/symbols.h"
#undef SYMBOL
};
static void *drivers[FUNCTIONS]; // what the driver has
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// --- What tests ask for ----------------------------------------------------------------------------------------------

static struct { char name[80]; int remaining, code; } failures[64];
static int failing, lost;
static uint64_t memory; // 0: as much as there is
static struct { int set, value; } attributes[256];

static int taken(const char *name, size_t length) { // counts a call; the code that it must answer, or 0
    for (int i = 0; i < failing; i++) {
        if (strlen(failures[i].name) != length || memcmp(failures[i].name, name, length) || --failures[i].remaining > 0)
            continue;
        int code = failures[i].code;
        failures[i] = failures[--failing];
        return code;
    }
    return 0;
}

static size_t plain(const char *name) { // the length of cuMemAlloc in cuMemAlloc_v2
    size_t n = strlen(name);
    return n > 3 && (!strcmp(name + n - 3, "_v2") || !strcmp(name + n - 3, "_v3")) ? n - 3 : n;
}

void between_fail(const char *name, int nth, int code) {
    pthread_mutex_lock(&lock);
    if (failing < 64) {
        size_t n = plain(name);
        memcpy(failures[failing].name, name, n < 79 ? n : 79);
        failures[failing].name[n < 79 ? n : 79] = 0;
        failures[failing].remaining = nth;
        failures[failing++].code = code;
    }
    pthread_mutex_unlock(&lock);
}
void between_reset(void) { failing = lost = 0; }
void between_memory(uint64_t bytes) { memory = bytes; }
void between_attribute(int number, int value) {
    if (number < 0 || number > 255) return;
    attributes[number].set = 1;
    attributes[number].value = value;
}
void between_defaults(void) {
    memory = 0;
    memset(attributes, 0, sizeof attributes);
}

// --- What is counted -------------------------------------------------------------------------------------------------

enum { ALLOCATIONS, HOST_RANGES, STREAMS, EVENTS, MODULES, BYTES };
static uint64_t live[6];
static struct { uint64_t at, bytes; } *allocated;
static size_t allocations, room;
static struct { long handle; char name[64]; uint64_t launches; } *kernels;
static int known, space;

void between_live(uint64_t *out) { memcpy(out, live, sizeof live); }
uint64_t between_launches(const char *kernel) {
    uint64_t n = 0;
    for (int i = 0; i < known; i++)
        if (!strcmp(kernels[i].name, kernel)) n += kernels[i].launches;
    return n;
}
void between_reset_launches(void) {
    for (int i = 0; i < known; i++) kernels[i].launches = 0;
}

static int kernelOf(long handle) {
    for (int i = known; i--;) // the latest: a driver may give a handle out again
        if (kernels[i].handle == handle) return i;
    return -1;
}

// Kernels that were captured run with their graph.
static struct { long stream, graph, executable; int length, kernels[256]; } captures[64];

enum { STREAM, GRAPH, EXECUTABLE };
static int captureOf(int what, long handle) {
    for (int i = 0; i < 64; i++) {
        const long of[] = {captures[i].stream, captures[i].graph, captures[i].executable};
        if (of[what] == handle) return i;
    }
    return -1;
}
static int freeCapture(void) {
    for (int i = 0; i < 64; i++)
        if (!captures[i].stream && !captures[i].graph && !captures[i].executable) return i;
    return -1;
}

static void remember(uint64_t at, uint64_t bytes) {
    if (allocations == room) allocated = realloc(allocated, (room = 2 * room + 64) * sizeof *allocated);
    allocated[allocations].at = at;
    allocated[allocations++].bytes = bytes;
    live[ALLOCATIONS]++;
    live[BYTES] += bytes;
}
static void forget(uint64_t at) {
    for (size_t i = 0; i < allocations; i++) {
        if (allocated[i].at != at) continue;
        live[ALLOCATIONS]--;
        live[BYTES] -= allocated[i].bytes;
        allocated[i] = allocated[--allocations];
        return;
    }
}

static void count(int function, const long *x) {
    switch (function) {
        case I_cuMemAlloc_v2: remember(*(uint64_t *)x[0], x[1]); break;
        case I_cuIpcOpenMemHandle_v2: remember(*(uint64_t *)x[0], 0); break;
        case I_cuMemFree_v2: case I_cuIpcCloseMemHandle: forget(x[0]); break;
        case I_cuMemHostAlloc: case I_cuMemHostRegister_v2: live[HOST_RANGES]++; break;
        case I_cuMemFreeHost: case I_cuMemHostUnregister: live[HOST_RANGES]--; break;
        case I_cuStreamCreate: case I_cuStreamCreateWithPriority: live[STREAMS]++; break;
        case I_cuStreamDestroy_v2: live[STREAMS]--; break;
        case I_cuEventCreate: live[EVENTS]++; break;
        case I_cuEventDestroy_v2: live[EVENTS]--; break;
        case I_cuModuleLoadData: case I_cuModuleLoadDataEx: live[MODULES]++; break;
        case I_cuModuleUnload: live[MODULES]--; break;
        case I_cuModuleGetFunction:
            if (known == space) kernels = realloc(kernels, (space = 2 * space + 64) * sizeof *kernels);
            kernels[known].handle = *(long *)x[0];
            snprintf(kernels[known].name, sizeof kernels->name, "%s", (const char *)x[2]);
            kernels[known++].launches = 0;
            break;
        case I_cuStreamBeginCapture_v2: {
            int i = freeCapture();
            if (i < 0) break;
            captures[i].stream = x[0];
            captures[i].length = 0;
            break;
        }
        case I_cuStreamEndCapture: {
            int i = captureOf(STREAM, x[0]);
            if (i < 0) break;
            captures[i].stream = 0;
            captures[i].graph = *(long *)x[1];
            break;
        }
        case I_cuGraphInstantiateWithFlags: {
            int i = captureOf(GRAPH, x[1]);
            if (i >= 0) captures[i].executable = *(long *)x[0];
            break;
        }
        case I_cuGraphDestroy: case I_cuGraphExecDestroy: {
            int i = captureOf(function == I_cuGraphDestroy ? GRAPH : EXECUTABLE, x[0]);
            if (i < 0) break;
            *(function == I_cuGraphDestroy ? &captures[i].graph : &captures[i].executable) = 0;
            break;
        }
        case I_cuDeviceGetAttribute:
            if (x[1] >= 0 && x[1] < 256 && attributes[x[1]].set) *(int *)x[0] = attributes[x[1]].value;
            break;
        case I_cuMemGetInfo_v2:
            if (!memory) break;
            *(uint64_t *)x[1] = memory;
            *(uint64_t *)x[0] = live[BYTES] < memory ? memory - live[BYTES] : 0;
            break;
        default: break;
    }
}

// --- Every call ------------------------------------------------------------------------------------------------------

// Errors after which a real context is of no use any more.
static int losesTheDevice(int code) {
    return code == 214 || code == 220 || code == 700 || code == 702 ||
           (code >= 709 && code <= 719 && code != 712 && code != 713);
}

// What needs no context, and so works with a lost device.
static int needsNothing(const char *name) {
    return !strncmp(name, "cuDevice", 8) || !strncmp(name, "cuDriver", 8) || !strncmp(name, "cuGet", 5) ||
           !strcmp(name, "cuCtxGetCurrent") || !strncmp(name, "cuCtxP", 6) || !strcmp(name, "cuCtxSetCurrent");
}
static int frees(const char *name) {
    return strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload") || strstr(name, "Unregister") ||
           strstr(name, "Close");
}

// A kernel runs, unless it is to fail: then the device is lost, as it shows with the next call.
static int runs(int k) {
    kernels[k].launches++;
    char of[80] = "kernel:";
    strcat(of, kernels[k].name);
    int code = taken(of, strlen(of));
    if (code) lost = code;
    return code;
}

static int runsOrIsCaptured(int k, long stream) {
    int i = captureOf(STREAM, stream);
    if (i < 0 || !stream) return runs(k);
    if (captures[i].length < 256) captures[i].kernels[captures[i].length++] = k;
    return 0;
}

static int runsGraph(long executable) {
    int i = captureOf(EXECUTABLE, executable), code = 0;
    for (int k = 0; i >= 0 && k < captures[i].length && !code; k++) code = runs(captures[i].kernels[k]);
    return code;
}

// What is answered without the driver: nothing of that is -1.
static int instead(int function, const long *x) {
    const char *name = names[function];
    int code = taken(name, plain(name));
    if (losesTheDevice(code)) lost = code;
    if (code) return code;
    if (lost && !needsNothing(name) && !frees(name)) return lost;
    switch (function) {
        case I_cuMemAlloc_v2: return memory && live[BYTES] + x[1] > memory ? 2 : -1;
        case I_cuMemHostRegister_v2:
            if (attributes[99].set && !attributes[99].value) return 801;
            return attributes[113].set && !attributes[113].value && x[2] & 8 ? 801 : -1;
        case I_cuLaunchKernel: {
            int k = kernelOf(x[0]);
            return k >= 0 && runsOrIsCaptured(k, x[3]) ? 0 : -1;
        }
        case I_cuGraphLaunch: return runsGraph(x[0]) ? 0 : -1;
        default: return -1;
    }
}

// More arguments than any function takes: those that nobody gave are passed on without a meaning.
#define DECLARED                                                                                                    \
    long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l, long m, long n, \
        long o, long p
#define PASSED a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p

static int call(int function, DECLARED) {
    const long x[] = {a, b, c, i}; // i: the stream of a launch
    pthread_mutex_lock(&lock);
    int code = instead(function, x);
    pthread_mutex_unlock(&lock);
    if (code >= 0) return code;
    code = ((int (*)(DECLARED))drivers[function])(PASSED);
    pthread_mutex_lock(&lock);
    if (!code) count(function, x);
    if (!code && lost && frees(names[function])) code = lost;
    pthread_mutex_unlock(&lock);
    return code;
}

#define SYMBOL(name)                                                     \
    extern void *khop_##name;                                            \
    static int between_##name(DECLARED) { return call(I_##name, PASSED); }
#include "../../device/symbols.h"
#undef SYMBOL

void between_install(void) {
#define SYMBOL(name)                    \
    drivers[I_##name] = khop_##name;    \
    khop_##name = (void *)between_##name;
#include "../../device/symbols.h"
#undef SYMBOL
}
