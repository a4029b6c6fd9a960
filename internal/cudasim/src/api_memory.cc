// Driver calls about memory: allocation, page-locked and registered host memory, and what an address is.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "config.h"
#include "findings.h"
#include "memory.h"
#include "streams.h"

typedef unsigned long long Device;                    // CUdeviceptr

// --- Device memory ---------------------------------------------------------------------------------------------------

static CUresult allocate(Device* p, size_t n) {
  if (!p || !n) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  Range* r = allocateDevice(n);
  if (!r) return kOutOfMemory;
  *p = r->lo;
  return kSuccess;
}
API cuMemAlloc_v2(Device* p, size_t n) {
  ENTER(CONTEXT);
  return allocate(p, n);
}
API cuMemAllocManaged(Device* p, size_t n, unsigned flags) {
  ENTER(CONTEXT);
  if (!attribute(83)) return kNotSupported;
  if (!p || !n || (flags != 1 && flags != 2)) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  Range* r = allocateManaged(n);
  if (!r) return kOutOfMemory;
  *p = r->lo;
  return kSuccess;
}
API cuMemAllocPitch_v2(Device* p, size_t* pitch, size_t width, size_t height, unsigned element) {
  ENTER(CONTEXT);
  if (element != 4 && element != 8 && element != 16) return kInvalidValue;
  *pitch = (width + 511) / 512 * 512;
  return allocate(p, *pitch * height);
}
API cuMemFree_v2(Device p) {
  ENTER(FREEING);
  if (!p) return G.sticky();
  if (anyCapture()) return kCaptureUnsupported;
  drainAll();                                         // the real one waits for the device, too
  Range* r = findRange(p);
  if (!r || r->lo != p || r->space() != DEVICE) return kInvalidValue;
  if (r->origin == Range::MANAGED) {
    size_t n = r->bytes();
    removeHost(r);
    munmap((void*)p, n);
  } else {
    freeDevice(r);
  }
  return G.sticky();
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER(CONTEXT);
  *total = G.config.memory;
  *free = G.config.memory - std::min(G.config.memory, deviceBytesTaken(G.device));
  return kSuccess;
}
API cuMemGetAddressRange_v2(Device* base, size_t* bytes, Device p) {
  ENTER(CONTEXT);
  Range* r = findRange(p);
  if (!r || !r->live || p >= r->hi) return kNotFound;
  if (base) *base = r->lo;
  if (bytes) *bytes = r->bytes();
  return kSuccess;
}

// --- Page-locked memory of the driver --------------------------------------------------------------------------------

static CUresult allocateHost(void** p, size_t n, unsigned flags) {
  if (!p || !n || flags & ~7u) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  void* m = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return kOutOfMemory;
  Range* r = addHost((uintptr_t)m, n, Range::HOST_ALLOCATION, false);
  if (!r) return kOutOfMemory;
  r->flags = flags;
  *p = m;
  return kSuccess;
}
API cuMemHostAlloc(void** p, size_t n, unsigned flags) {
  ENTER(CONTEXT);
  return allocateHost(p, n, flags);
}
API cuMemAllocHost_v2(void** p, size_t n) {
  ENTER(CONTEXT);
  return allocateHost(p, n, 0);
}
API cuMemFreeHost(void* p) {
  ENTER(FREEING);
  Range* r = liveHostRange((uintptr_t)p);
  if (!r || r->lo != (uintptr_t)p || r->origin != Range::HOST_ALLOCATION) return kInvalidValue;
  size_t n = r->bytes();
  removeHost(r);
  munmap(p, n);
  return G.sticky();
}

// --- Registered memory -----------------------------------------------------------------------------------------------

enum { REGISTER_PORTABLE = 1, REGISTER_MAPPED = 2, REGISTER_IO = 4, REGISTER_READ_ONLY = 8 };

static bool onRealFileSystem(const char* path) {      // one with a disk behind it: not tmpfs, not hugetlbfs
  struct statfs s;
  if (statfs(path, &s)) return false;
  return s.f_type != 0x01021994 && s.f_type != (long)0x958458f6;
}

// Would a driver be able to pin this? What Linux says of the mappings decides: all of it must be mapped and readable;
// writable unless it is registered read-only; and a shared writable mapping of a file on a disk cannot be pinned for
// long.
static CUresult pinnable(uintptr_t lo, uintptr_t hi, bool readOnly) {
  FILE* f = fopen("/proc/self/maps", "r");
  if (!f) return kSuccess;
  char line[4400];
  uintptr_t at = lo;
  CUresult rc = kSuccess;
  while (at < hi && !rc && fgets(line, sizeof line, f)) {
    unsigned long from, to;
    char rights[8], path[4200] = "";
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4199[^\n]", &from, &to, rights, path) < 3 || to <= at) continue;
    if (from > at || rights[0] != 'r') break;
    bool shared = rights[3] == 's', writable = rights[1] == 'w';
    if (!writable && !readOnly) rc = kInvalidValue;
    if (writable && shared && path[0] == '/' && onRealFileSystem(path)) rc = kInvalidValue;
    at = to;
  }
  fclose(f);
  return rc ? rc : at >= hi ? kSuccess : kInvalidValue;
}

API cuMemHostRegister_v2(void* p, size_t n, unsigned flags) {
  ENTER(CONTEXT);
  uintptr_t lo = (uintptr_t)p;
  if (!p || !n || flags & ~15u) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  if (!attribute(99)) return kNotSupported;
  bool readOnly = flags & REGISTER_READ_ONLY;
  if (readOnly && !attribute(kReadOnlyRegister)) return kNotSupported;
  if (flags & REGISTER_IO) return kNotSupported;
  if (overlapsHost(lo, lo + n)) return kHostMemoryRegistered;
  if (CUresult rc = pinnable(lo, lo + n, readOnly)) return rc;
  Range* r = addHost(lo, n, Range::REGISTERED, readOnly);
  if (!r) return kOutOfMemory;
  r->flags = flags;
  return kSuccess;
}
API cuMemHostUnregister(void* p) {
  ENTER(FREEING);
  Range* r = liveHostRange((uintptr_t)p);
  if (!r || r->lo != (uintptr_t)p || r->origin != Range::REGISTERED) return kHostMemoryNotRegistered;
  removeHost(r);                                      // not after waiting: a kernel that still uses it is found
  return G.sticky();
}
API cuMemHostGetDevicePointer_v2(Device* d, void* p, unsigned) {
  ENTER(CONTEXT);
  Range* r = liveHostRange((uintptr_t)p);
  if (!r) return kInvalidValue;
  *d = (Device)p;                                     // unified addressing: the same address
  return kSuccess;
}
API cuMemHostGetFlags(unsigned* flags, void* p) {
  ENTER(CONTEXT);
  Range* r = liveHostRange((uintptr_t)p);
  if (!r) return kInvalidValue;
  *flags = r->flags;
  return kSuccess;
}

// --- What an address is ----------------------------------------------------------------------------------------------

enum {
  POINTER_CONTEXT = 1,
  POINTER_MEMORY_TYPE,
  POINTER_DEVICE,
  POINTER_HOST,
  POINTER_BUFFER_ID = 7,
  POINTER_MANAGED = 8,
  POINTER_ORDINAL = 9,
  POINTER_RANGE_START = 11,
  POINTER_RANGE_SIZE = 12,
  POINTER_MAPPED = 13
};

static CUresult pointerAttribute(void* out, int what, Device p) {
  Range* r = findRange(p);
  if (!r || !r->live || p >= r->hi) return kInvalidValue;
  bool device = r->space() == DEVICE;
  switch (what) {
    case POINTER_CONTEXT:
      *(void**)out = r->origin == Range::ALLOCATION ? primaryContext(r->device) : currentContext();
      return kSuccess;
    case POINTER_MEMORY_TYPE: *(unsigned*)out = device ? 2 : 1; return kSuccess;
    case POINTER_DEVICE: *(Device*)out = p; return kSuccess;
    case POINTER_HOST:
      if (r->origin == Range::ALLOCATION) return kInvalidValue;
      *(void**)out = (void*)p;
      return kSuccess;
    case POINTER_BUFFER_ID: *(unsigned long long*)out = r->lo; return kSuccess;
    case POINTER_MANAGED: *(unsigned*)out = r->origin == Range::MANAGED; return kSuccess;
    case POINTER_ORDINAL: *(int*)out = r->origin == Range::ALLOCATION ? r->device : G.device; return kSuccess;
    case POINTER_RANGE_START: *(Device*)out = r->lo; return kSuccess;
    case POINTER_RANGE_SIZE: *(size_t*)out = r->bytes(); return kSuccess;
    case POINTER_MAPPED: *(unsigned*)out = 1; return kSuccess;
    default: return kNotSupported;
  }
}
API cuPointerGetAttribute(void* out, int what, Device p) {
  ENTER(CONTEXT);
  return pointerAttribute(out, what, p);
}
API cuPointerGetAttributes(unsigned n, int* what, void** out, Device p) {
  ENTER(CONTEXT);
  // Unlike the call for one, this one answers 0 for what is no memory of ours.
  for (unsigned i = 0; i < n; i++) {
    bool narrow = what[i] == POINTER_MEMORY_TYPE || what[i] == POINTER_MANAGED || what[i] == POINTER_ORDINAL ||
                  what[i] == POINTER_MAPPED;
    if (pointerAttribute(out[i], what[i], p)) memset(out[i], 0, narrow ? 4 : 8);
  }
  return kSuccess;
}
API cuPointerSetAttribute(const void*, int, Device) {
  ENTER(CONTEXT);
  return kSuccess;
}

// Advice and prefetch change nothing here; they are only checked.
static CUresult adviseable(Device p, size_t n) {
  Range* r = findRange(p);
  if (attribute(kPageableByPageTables) && (!r || r->space() == HOST)) return kSuccess;
  return r && r->live && r->origin == Range::MANAGED && p + n <= r->hi ? kSuccess : kInvalidValue;
}
API cuMemAdvise(Device p, size_t n, int, int) {
  ENTER(CONTEXT);
  return adviseable(p, n);
}
API cuMemPrefetchAsync(Device p, size_t n, int, void* stream) {
  ENTER(CONTEXT);
  return findStream(stream) ? adviseable(p, n) : kInvalidHandle;
}
